// A small inventory whose location is files: signer, intermediate, bundles, leaves. Real keys and certificates, real disk,
// no API server; what regen does with files it does with objects.
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../lib/clock.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Location, Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { createLog } from '../../lib/log.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import type { KeyPool } from '../../lib/pki/key-pool.ts';
import type { RegenOptions } from '../../lib/regen/run.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import type { Material, Store } from '../../lib/store/store.ts';

const day = 24 * 3_600_000;

export interface LogLine {
  readonly event: string;
  readonly level: string;
  readonly artefact?: string;
  readonly reason?: string;
  readonly [field: string]: unknown;
}

export class DiskWorld implements AsyncDisposable {
  readonly directory: string;
  readonly store: Store;
  readonly lines: LogLine[] = [];
  readonly text: string[] = [];
  readonly log = createLog({
    level: 'debug',
    write: (line) => {
      this.text.push(line);
      this.lines.push(JSON.parse(line) as LogLine);
    },
  });

  constructor(directory: string) {
    this.directory = directory;
    this.store = createDiskStore({ backupDir: join(directory, 'backup') });
  }

  static async create(): Promise<DiskWorld> {
    const directory = await mkdtemp(join(tmpdir(), 'regen-'));
    await mkdir(join(directory, 'pki'));
    return new DiskWorld(directory);
  }

  #pair(name: string): Location {
    const file = join(this.directory, 'pki', name);
    return { kind: 'pemPair', certFile: `${file}.crt`, keyFile: `${file}.key` };
  }

  #file(name: string): Location {
    return { kind: 'pemFile', file: join(this.directory, 'pki', `${name}.crt`) };
  }

  get resolved(): Resolved {
    const lives = { readers: [], validity: 30 * day, refresh: 15 * day };
    const leaf = { ...lives, kind: 'target', organizations: [] } as const;
    const artefacts: ResolvedArtefact[] = [
      {
        ...lives,
        kind: 'signer',
        owned: true,
        name: 'signer',
        location: this.#pair('signer'),
        validity: 60 * day,
        refresh: 30 * day,
      },
      { ...lives, kind: 'signer', owned: true, name: 'lonely', location: this.#pair('lonely') },
      { kind: 'caBundle', name: 'ca', location: this.#file('ca'), readers: [], signers: ['signer'] },
      {
        ...lives,
        kind: 'signer',
        owned: true,
        name: 'intermediate',
        location: this.#pair('intermediate'),
        issuer: 'signer',
      },
      {
        kind: 'caBundle',
        name: 'intermediate-ca',
        location: this.#file('intermediate-ca'),
        readers: [],
        signers: ['intermediate'],
      },
      {
        kind: 'composedBundle',
        name: 'all-ca',
        location: this.#file('all-ca'),
        readers: [],
        inputs: ['ca', 'intermediate-ca'],
      },
      { kind: 'copy', name: 'all-ca-copy', location: this.#file('all-ca-copy'), readers: [], of: 'all-ca' },
      {
        ...leaf,
        name: 'serving',
        location: this.#pair('serving'),
        issuer: 'signer',
        usage: 'serving',
        hostnames: ['127.0.0.1', 'localhost'],
      },
      {
        ...leaf,
        name: 'client',
        location: this.#pair('client'),
        issuer: 'intermediate',
        usage: 'client',
        commonName: 'system:test',
        organizations: ['system:masters', 'a'],
        hostnames: [],
      },
    ];
    return { name: 'test', artefacts };
  }

  row(name: string): ResolvedArtefact {
    const found = this.resolved.artefacts.find((artefact) => artefact.name === name);
    if (found === undefined) throw new Error(`no artefact ${name}`);
    return found;
  }

  async read(name: string): Promise<Material | undefined> {
    return this.store.read(this.row(name).location, AbortSignal.timeout(5000));
  }

  /** The bytes of every artefact, as text. */
  async bytes(): Promise<Record<string, string>> {
    const rows = this.resolved.artefacts.map(async ({ name }) => {
      const entries = Object.entries((await this.read(name))?.entries ?? {});
      return [name, entries.map(([key, value]) => `${key}:${Buffer.from(value).toString()}`).join()] as const;
    });
    return Object.fromEntries(await Promise.all(rows));
  }

  /** Options for a single run in which everything may be signed. */
  options(more: Partial<RegenOptions> = {}): RegenOptions {
    return {
      resolved: this.resolved,
      store: this.store,
      policy: { kind: 'OnlyWhenExpired', graceMs: 0, settleMs: 0 },
      clockFacts: () => ({ builtAt: new Date('2025-01-01T00:00:00Z'), synchronised: true }),
      clock: systemClock,
      log: this.log,
      keyPool: fastKeys(),
      keyAlgorithm: { name: 'ECDSA', curve: 'P-256' },
      once: true,
      dryRun: false,
      signal: AbortSignal.timeout(20_000),
      ...more,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }
}

export function fastKeys(): KeyPool {
  return createKeyPool({ algorithm: { name: 'ECDSA', curve: 'P-256' }, size: 8 });
}

/** The machine's clock, some milliseconds off; sleeps pass at once and move it on. */
export function movedClock(ms: number): Clock & { slept: number } {
  const clock = {
    slept: 0,
    now: (): Date => new Date(systemClock.now().getTime() + ms + clock.slept),
    uptimeSeconds: (): number => 1e6 + (systemClock.now().getTime() + clock.slept) / 1000,
    sleep: async (wait: number, signal?: AbortSignal): Promise<void> => {
      await systemClock.sleep(0, signal);
      clock.slept += wait;
    },
  };
  return clock;
}
