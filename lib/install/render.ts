// `init render`: the first generation as files, with no API server at all, so that static pods can start. An existing
// generation is never overwritten. A run that was killed is completed by the next one, with the signers it had made:
//
//  1. refuse a directory that holds another generation      4. publish what the components read
//  2. read what an interrupted run left behind              5. write kubeconfigs
//  3. make and store each artefact before its dependants    6. write generation.json: complete
import type { Clock } from '../clock.ts';
import { RecoveryError } from '../errors.ts';
import { isOfOthers } from '../inventory/kinds.ts';
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { filesOf, isFile } from '../inventory/places.ts';
import type { KeyAlgorithm } from '../pki/key.ts';
import { parsePrivateKey, PrivateKey } from '../pki/key.ts';
import { realDisk } from '../disk/disk.ts';
import { ensureDirectory, replaceFile } from '../disk/files.ts';
import { publish } from '../publish/publish.ts';
import { createDiskStore } from '../store/disk.ts';
import { certificateKey, type Found, locationText, type Material, privateKeyKey, type Seen } from '../store/store.ts';
import { dirname } from 'node:path';
import { componentFlags, type ComponentFlags, kubeconfigClients } from './component-flags.ts';
import { componentKubeconfigs } from './component-kubeconfigs.ts';
import { namesIn, readIfPresent, writeIfAbsent } from './files.ts';
import { makeGeneration } from './generation.ts';
import { kubeconfigFile, type Layout, layoutOf, objectDirectory } from './layout.ts';
import { readStaged, stage } from './staging.ts';

export interface RenderOptions {
  readonly resolved: Resolved;
  /** Absolute path. */
  readonly directory: string;
  /** The API server's address for kubeconfigs. Default: https://localhost:6443, which localhost-serving answers. */
  readonly server?: string;
  /** Default: RSA-2048. */
  readonly keyAlgorithm?: KeyAlgorithm;
  readonly dryRun?: boolean;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export interface RenderOutcome {
  readonly directory: string;
  /** Paths and objects that were (with --dry-run: would be) written. */
  readonly written: readonly string[];
  /** What was there already and stays. */
  readonly kept: readonly string[];
  /** Objects that others must provide. */
  readonly notMade: readonly string[];
  readonly flags: ComponentFlags;
  /** By component. */
  readonly kubeconfigs: Readonly<Record<string, string>>;
}

export const defaultServer = 'https://localhost:6443';
const defaultKeyAlgorithm: KeyAlgorithm = { name: 'RSA', bits: 2048 };

/** Throws WriteFailed, ReadFailed, MaterialInvalid, SignFailed; then running it again completes what it began. */
export async function runRender(options: RenderOptions): Promise<RenderOutcome> {
  const layout = layoutOf(options.directory);
  const run = new RenderRun(options, layout);
  await run.all();
  const clients = kubeconfigClients.filter(([, name]) => find(options.resolved, name) !== undefined);
  return {
    directory: layout.directory,
    written: run.written,
    kept: run.kept,
    notMade: options.resolved.artefacts.filter(isOfOthers).map(({ name }) => name),
    flags: componentFlags(options.resolved, layout),
    kubeconfigs: Object.fromEntries(clients.map(([component]) => [component, kubeconfigFile(layout, component)])),
  };
}

function find({ artefacts }: Resolved, wanted: string): ResolvedArtefact | undefined {
  return artefacts.find(({ name }) => name === wanted);
}

class RenderRun {
  readonly written: string[] = [];
  readonly kept: string[] = [];
  readonly #options: RenderOptions;
  readonly #layout: Layout;
  readonly #store = createDiskStore();

  constructor(options: RenderOptions, layout: Layout) {
    this.#options = options;
    this.#layout = layout;
  }

  async all(): Promise<void> {
    const { resolved } = this.#options;
    const complete = (await readIfPresent(this.#layout.generationFile, 'generation')) !== undefined;
    const staged = await readStaged(this.#layout, resolved);
    if (!complete && staged.size === 0) await this.#refuseForeign(); // 1
    if (complete) {
      this.kept.push(this.#layout.generationFile);
      await this.#make(staged, ({ location }) => isFile(location)); // what no API can heal may have been lost since
    } else await this.#make(staged); // 2 to 4
    await this.#kubeconfigs(); // 5
    if (!complete) await this.#finish(); // 6
  }

  async #refuseForeign(): Promise<void> {
    const { certs } = this.#layout;
    if ((await namesIn(certs)).length === 0) return;
    const message = `Cannot render a generation to "${this.#layout.directory}": "${certs}" holds another one; choose an empty directory`;
    throw new RecoveryError('WriteFailed', message, { details: { path: certs } });
  }

  async #make(
    staged: ReadonlyMap<string, Material>,
    isWanted: (artefact: ResolvedArtefact) => boolean = () => true,
  ): Promise<void> {
    const { clock, dryRun = false, keyAlgorithm = defaultKeyAlgorithm } = this.#options;
    const { artefacts, ...inventory } = this.#options.resolved;
    const resolved: Resolved = { ...inventory, artefacts: artefacts.filter(isWanted) };
    const existing = new Map(staged);
    const halves = new Map<string, { readonly key: PrivateKey; readonly seen: Seen }>();
    for (const artefact of resolved.artefacts.filter(({ location }) => isFile(location))) {
      const found = await this.#store.read(artefact.location, this.#options.signal);
      const half = found && halfPair(artefact, found);
      if (half !== undefined) halves.set(artefact.name, half);
      else if (found !== undefined) existing.set(artefact.name, found);
    }
    if (dryRun) {
      const isThere = ({ name }: ResolvedArtefact): boolean => existing.has(name);
      for (const artefact of resolved.artefacts.filter((row) => !isOfOthers(row))) {
        this.#note(isThere(artefact) ? 'unchanged' : 'written', locationText(artefact.location));
        const directory = artefact.published === undefined ? undefined : objectDirectory(artefact, this.#layout);
        if (directory !== undefined) this.#note('written', directory);
      }
      return;
    }
    const keyFor = (name: string): PrivateKey | undefined => halves.get(name)?.key;
    for await (const one of makeGeneration({ resolved, now: clock.now(), keyAlgorithm, existing, keyFor })) {
      const { artefact, material, isNew } = one;
      if (isNew) await this.#keep(artefact, material, halves.get(artefact.name)?.seen ?? 'absent'); // 3
      this.#note(isNew ? 'written' : 'unchanged', locationText(artefact.location));
      await this.#publish(artefact, material); // 4
    }
  }

  async #keep({ location }: ResolvedArtefact, material: Material, seen: Seen): Promise<void> {
    if (!isFile(location)) {
      await stage(this.#layout, location, material);
      return;
    }
    for (const { file } of filesOf(location)) await ensureDirectory(realDisk, dirname(file));
    const outcome = await this.#store.write(location, material, seen, this.#options.signal);
    if (outcome === 'written') return;
    const message = `Cannot write ${locationText(location)}: somebody else has just written it; look at it, then run again`;
    throw new RecoveryError('WriteFailed', message);
  }

  async #publish(artefact: ResolvedArtefact, { entries }: Material): Promise<void> {
    const directory = artefact.published === undefined ? undefined : objectDirectory(artefact, this.#layout);
    if (directory === undefined) return;
    const mode = artefact.location.kind === 'secret' ? 0o600 : 0o644;
    const outcome = await publish({ directory, what: locationText(artefact.location), entries, mode });
    this.#note(outcome === 'unchanged' ? outcome : 'written', directory);
  }

  async #kubeconfigs(): Promise<void> {
    const { resolved, server = defaultServer, dryRun = false } = this.#options;
    for (const { path, content } of componentKubeconfigs(resolved, this.#layout, server)) {
      const there = dryRun && (await readIfPresent(path, 'kubeconfig')) !== undefined;
      if (dryRun) this.#note(there ? 'unchanged' : 'written', path);
      else this.#note(await writeIfAbsent({ path, content, mode: 0o600, what: 'kubeconfig' }), path);
    }
  }

  async #finish(): Promise<void> {
    const { resolved, clock, dryRun = false } = this.#options;
    const path = this.#layout.generationFile;
    const artefacts = resolved.artefacts.map(({ name, kind, location }) => ({ name, kind, location }));
    const content = `${JSON.stringify({ inventory: resolved.name, madeAt: clock.now(), artefacts }, null, 2)}\n`;
    this.#note(dryRun ? 'written' : await replaceFile({ path, content, mode: 0o644, what: 'generation' }), path);
  }

  #note(outcome: 'written' | 'unchanged', what: string): void {
    (outcome === 'written' ? this.written : this.kept).push(what);
  }
}

/** A key without its certificate: a run was killed between the two renames. The key is used, not thrown away. */
function halfPair(
  artefact: ResolvedArtefact,
  { entries, version }: Found,
): { key: PrivateKey; seen: Seen } | undefined {
  const { location } = artefact;
  if (location.kind !== 'pemPair' || entries[certificateKey] !== undefined) return undefined;
  const what = `${locationText(location)} ${privateKeyKey}`;
  const key = new PrivateKey(parsePrivateKey(entries[privateKeyKey] ?? new Uint8Array(), what));
  return { key, seen: { version } };
}
