// `init render`: the first generation as files, without any API server, so that static pods can start. An existing
// generation is never overwritten. A killed run is completed by the next one, with the signers it had made:
//
//  1. refuse a directory that holds another generation      4. publish what the components read
//  2. read the leftovers of an interrupted run              5. write kubeconfigs
//  3. make and store each artefact before its dependants    6. write generation.json: complete
import { dirname } from 'node:path';
import type { Clock } from '../clock.ts';
import { realDisk } from '../disk/disk.ts';
import { ensureDirectory, replaceFile } from '../disk/files.ts';
import { RecoveryError } from '../errors.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import { filesOf, isFile, isFileOfItsOwn, isObject, isOfOthers, publishedPlace } from '../inventory/places.ts';
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { type KeyAlgorithm, parsePrivateKey, PrivateKey } from '../pki/key.ts';
import { publish } from '../publish/writer.ts';
import { createDiskStore } from '../store/disk-store.ts';
import { type Found, locationText, type Material, type Seen } from '../store/store.ts';
import { componentFlags, type ComponentFlags, componentKubeconfigs } from './component-flags.ts';
import { isThere, namesIn, readIfPresent, writeIfAbsent } from './existing-files.ts';
import { makeGeneration, readStaged, stage } from './first-generation.ts';
import { type HostLayout, hostLayout } from './layout.ts';
import { defaultKeyAlgorithm } from '../well-known.ts';

const defaultServer = 'https://localhost:6443';

interface RenderOptions {
  readonly resolved: Resolved;
  /** Absolute path. */
  readonly directory: string;
  /** API server's address for kubeconfigs. Default: https://localhost:6443, which localhost-serving covers. */
  readonly server?: string | undefined;
  /** Default: RSA-2048. */
  readonly keyAlgorithm?: KeyAlgorithm | undefined;
  readonly dryRun?: boolean;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export interface RenderOutcome {
  readonly directory: string;
  /** Paths and objects that were (with --dry-run: would be) written. */
  readonly written: readonly string[];
  /** Existing paths and objects, kept. */
  readonly kept: readonly string[];
  /** Objects that another controller must provide. */
  readonly notMade: readonly string[];
  readonly flags: ComponentFlags;
  /** Kubeconfig paths by component. */
  readonly kubeconfigs: Readonly<Record<string, string>>;
}

/** Throws WriteFailed, ReadFailed, MaterialInvalid, SignFailed; running it again then completes the generation. */
export async function runRender(options: RenderOptions): Promise<RenderOutcome> {
  const { resolved } = options;
  const layout = hostLayout(options.directory);
  const written: string[] = [];
  const kept: string[] = [];
  const note: Note = (outcome, what) => void (outcome === 'written' ? written : kept).push(what);
  const rendering = { ...options, layout, note };
  const complete = (await readIfPresent(layout.generationFile, 'generation')) !== undefined;
  const staged = await readStaged(layout, resolved);
  if (!complete && staged.size === 0) await refuseForeign(layout); // 1
  if (complete) note('unchanged', layout.generationFile);
  // A complete generation: only files are made again, because no API can heal their loss.
  await renderObjects(staged, rendering, ({ location }) => !complete || isFile(location)); // 2 to 4
  await renderKubeconfigs(rendering); // 5
  if (!complete) await finish(rendering); // 6
  const kubeconfigs = componentKubeconfigs(resolved, layout, defaultServer);
  return {
    directory: layout.directory,
    written,
    kept,
    notMade: resolved.artefacts.filter(isOfOthers).map(({ name }) => name),
    flags: componentFlags(resolved, layout),
    kubeconfigs: Object.fromEntries(kubeconfigs.map(({ component, path }) => [component, path])),
  };
}

type Note = (outcome: 'written' | 'unchanged', what: string) => void;

interface Rendering extends RenderOptions {
  readonly layout: HostLayout;
  readonly note: Note;
}

async function refuseForeign({ directory, certs }: HostLayout): Promise<void> {
  if ((await namesIn(certs)).length === 0) return;
  const message = `Cannot render a generation to "${directory}": "${certs}" holds another one; choose an empty directory`;
  throw new RecoveryError('WriteFailed', message, { details: { path: certs } });
}

async function renderObjects(
  staged: ReadonlyMap<string, Material>,
  rendering: Rendering,
  isWanted: (artefact: ResolvedArtefact) => boolean,
): Promise<void> {
  const { layout, clock, signal, note, dryRun = false, keyAlgorithm = defaultKeyAlgorithm } = rendering;
  const resolved: Resolved = { ...rendering.resolved, artefacts: rendering.resolved.artefacts.filter(isWanted) };
  const store = createDiskStore();
  const existing = new Map(staged);
  const halves = new Map<string, { readonly key: PrivateKey; readonly seen: Seen }>();
  for (const artefact of resolved.artefacts.filter(({ location }) => isFile(location))) {
    const found = await store.read(artefact.location, signal);
    const half = found && halfPair(artefact, found);
    if (half !== undefined) halves.set(artefact.name, half);
    else if (found !== undefined) existing.set(artefact.name, found);
  }
  if (dryRun) {
    for (const artefact of resolved.artefacts.filter((one) => !isOfOthers(one))) {
      note(existing.has(artefact.name) ? 'unchanged' : 'written', locationText(artefact.location));
      const place = publishedPlace(artefact, layout.certs);
      if (place !== undefined) note('written', place.directory);
    }
    return;
  }
  const keyFor = (name: string): PrivateKey | undefined => halves.get(name)?.key;
  for await (const one of makeGeneration({ resolved, now: clock.now(), keyAlgorithm, existing, keyFor })) {
    const { artefact, material, isNew } = one;
    const { name, location } = artefact;
    if (isNew && isObject(location)) await stage(layout, location, material); // 3
    if (isNew && isFile(location)) {
      for (const { file } of filesOf(location)) await ensureDirectory(realDisk, dirname(file));
      const seen = halves.get(name)?.seen ?? 'absent';
      if ((await store.write(location, material, seen, signal)) === 'conflict') {
        const message = `Cannot write ${locationText(location)}: somebody else has just written it; look at it, then run again`;
        throw new RecoveryError('WriteFailed', message);
      }
    }
    note(isNew ? 'written' : 'unchanged', locationText(location));
    const place = publishedPlace(artefact, layout.certs);
    if (place === undefined) continue;
    const outcome = await publish({ ...place, what: locationText(location), entries: material.entries }); // 4
    note(outcome === 'unchanged' ? outcome : 'written', place.directory);
  }
}

async function renderKubeconfigs({ resolved, layout, server, note, dryRun = false }: Rendering): Promise<void> {
  for (const { path, content } of componentKubeconfigs(resolved, layout, server ?? defaultServer)) {
    const file = { path, content, mode: 0o600, what: 'kubeconfig' };
    if (dryRun) note((await isThere(path, file.what)) ? 'unchanged' : 'written', path);
    else note(await writeIfAbsent(file), path);
  }
}

async function finish({ resolved, layout, clock, note, dryRun = false }: Rendering): Promise<void> {
  const path = layout.generationFile;
  const artefacts = resolved.artefacts.map(({ name, kind, location }) => ({ name, kind, location }));
  const content = `${JSON.stringify({ inventory: resolved.name, madeAt: clock.now(), artefacts }, null, 2)}\n`;
  note(dryRun ? 'written' : await replaceFile({ path, content, mode: 0o644, what: 'generation' }), path);
}

/** A key without its certificate: a run was killed between the two renames. The key is used, not thrown away. */
function halfPair(
  artefact: ResolvedArtefact,
  { entries, version }: Found,
): { key: PrivateKey; seen: Seen } | undefined {
  const { location } = artefact;
  if (!isFileOfItsOwn(location, privateKeyKey) || entries[certificateKey] !== undefined) return undefined;
  const what = `${locationText(location)} ${privateKeyKey}`;
  const key = new PrivateKey(parsePrivateKey(entries[privateKeyKey] ?? new Uint8Array(), what));
  return { key, seen: { version } };
}
