// Every fault of the proxy x syncer: objects change while the fault acts, before the syncer's first request or while it
// watches. What was changed is on disk in the end, nothing was written twice, and a reader that opens the files all the
// time, by plain reads of its own, never sees a mixed pair, an empty file or an older generation than before. Told of four
// objects, and of all that OpenShift's cert-syncer of kube-apiserver writes.
import { createPublicKey } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ResolvedArtefact } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { issueKubeconfigs } from '../../lib/issue/kubeconfigs.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';
import { type Fault, type FaultProxy, startFaultProxy } from '../support/faults/fault-proxy.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';
import { damage } from '../support/stories/soundness.ts';
import {
  type Content,
  createNamespace,
  deleteObject,
  type ObjectName,
  opaque,
  pairContent,
  putObject,
  startSyncing,
  type Syncing,
} from '../support/cluster/syncing.ts';
import { layoutProblems, wideFiles } from '../publish/object-directory.ts';

let controlPlane: ControlPlane;
let scratch: string;
/** Three generations of one pair. */
let pairs: Pair[];
let authority: Pair;

beforeAll(async () => {
  controlPlane = await startControlPlane();
  scratch = await mkdtemp(join(tmpdir(), 'syncer-faults-'));
  authority = await createAuthority(join(scratch, 'ca'), { commonName: 'ca' });
  const leaf = (index: number): Promise<Pair> =>
    createLeaf(join(scratch, `pair-${index}`), authority, { commonName: `generation ${index}` });
  pairs = await Promise.all([1, 2, 3].map(leaf));
});
afterAll(async () => {
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(scratch, { recursive: true, force: true });
});

/** A reader of the pair that knows nothing of the syncer: it looks at the generation of the moment, again and again. */
class Reader {
  /** Every generation that it has seen, in order. */
  readonly seen: number[] = [];
  readonly bad: string[] = [];
  readonly #directory: string;
  readonly #certificates = pairs.map(({ cert }) => readFileSync(cert, 'utf8'));
  #stopped = false;
  readonly #done: Promise<void>;

  constructor(directory: string) {
    this.#directory = directory;
    this.#done = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#done;
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      this.#look();
      await turn();
    }
  }

  #look(): void {
    const read = (key: string): string => readFileSync(join(this.#directory, key), 'utf8');
    const before = read('tls.crt');
    const key = read('tls.key');
    const cert = read('tls.crt');
    if (before !== cert) return; // it was flipped between two reads: nobody loads such a pair, the next look is due
    const problem = damage({ 'tls.crt': cert, 'tls.key': key });
    if (problem !== undefined) this.bad.push(problem);
    const generation = this.#certificates.indexOf(cert) + 1;
    if (generation !== this.seen.at(-1)) this.seen.push(generation);
  }
}

type Name = 'pair' | 'settings' | 'goes' | 'comes';

/** Who plays what, among which objects. The others stay as they are. */
interface Cast {
  readonly name: string;
  readonly objects: Readonly<Record<Name, string>>;
  readonly artefacts: (namespace: string) => readonly ResolvedArtefact[];
}

const kindOf = (name: Name): ObjectName['kind'] => (name === 'settings' ? 'configMap' : 'secret');

const fourObjects: Cast = {
  name: 'four objects',
  objects: { pair: 'pair', settings: 'settings', goes: 'goes', comes: 'comes' },
  artefacts: (namespace) =>
    (['pair', 'settings', 'goes', 'comes'] as const).map((name) =>
      opaque({ kind: kindOf(name), namespace, name }, name === 'goes' || name === 'comes' ? 'optional' : 'required'),
    ),
};

const openshiftPreset: Cast = {
  name: 'openshift-kube-apiserver',
  objects: {
    pair: 'kubelet-client',
    settings: 'control-plane-node-kubeconfig',
    goes: 'user-serving-cert-000',
    comes: 'user-serving-cert-009',
  },
  artefacts: (namespace) =>
    resolve(loadPreset('openshift-kube-apiserver'), {}).artefacts.map((row) =>
      row.published === undefined || !('namespace' in row.location)
        ? row
        : { ...row, location: { ...row.location, namespace } },
    ),
};

const pairEntries = (pair: Pair): Readonly<Record<string, Buffer>> => ({
  'tls.crt': readFileSync(pair.cert),
  'tls.key': readFileSync(pair.key),
});

/** What an object of that kind may hold. */
function contentOf(artefact: ResolvedArtefact): Content {
  const { kind, location } = artefact;
  const pair = pairs[0] ?? authority;
  const key = readFileSync(pair.key, 'utf8');
  if (kind === 'keyPair') {
    const publicKey = createPublicKey(key).export({ type: 'spki', format: 'pem' });
    return { 'service-account.key': key, 'service-account.pub': publicKey };
  }
  if (kind === 'opaque') return { value: 'one' };
  if (kind === 'kubeconfigs') {
    const bundle = { 'ca-bundle.crt': readFileSync(authority.cert) };
    const local = 'https://localhost:6443';
    const endpoints = { controlPlane: local, internal: local, local };
    const made = issueKubeconfigs({
      artefact,
      client: pairEntries(pair),
      authority: bundle,
      endpoints,
      former: undefined,
    });
    return Object.fromEntries(Object.entries(made.entries).map(([name, bytes]) => [name, Buffer.from(bytes)]));
  }
  return location.kind === 'secret' ? pairContent(pair) : { 'ca-bundle.crt': readFileSync(authority.cert) };
}

/** Objects in a namespace of their own, all of them on disk already; a syncer by a proxy that is not started yet. */
class Subject implements AsyncDisposable {
  readonly proxy: FaultProxy;
  readonly destinationDir: string;
  readonly reader: Reader;
  readonly #kubeconfig: string;
  readonly #namespace: string;
  readonly #cast: Cast;
  #syncing: Syncing | undefined;

  private constructor(
    cast: Cast,
    parts: Pick<Subject, 'proxy' | 'destinationDir'> & { kubeconfig: string; namespace: string },
  ) {
    this.#cast = cast;
    this.proxy = parts.proxy;
    this.destinationDir = parts.destinationDir;
    this.#kubeconfig = parts.kubeconfig;
    this.#namespace = parts.namespace;
    this.reader = new Reader(join(parts.destinationDir, 'secrets', cast.objects.pair));
  }

  static #count = 0;

  static async create(cast: Cast): Promise<Subject> {
    const namespace = await createNamespace(controlPlane, `faults-${(Subject.#count += 1)}`);
    const serverName = 'localhost-recovery';
    const target = { port: controlPlane.port, caFile: controlPlane.recoveryCa, serverName };
    const proxy = await startFaultProxy({ target });
    const kubeconfig = await writeKubeconfig(join(scratch, namespace), {
      server: proxy.url,
      certificateAuthority: proxy.ca,
      tlsServerName: serverName,
      token: controlPlane.adminToken,
    });
    const destinationDir = join(scratch, namespace, 'certs').replace(namespace, `${namespace}-disk`);
    const artefacts = cast.artefacts(namespace);
    for (const row of artefacts) {
      const { location, published } = row;
      if (published === undefined || !('namespace' in location)) continue;
      if (location.name === cast.objects.pair)
        await putObject(controlPlane, location, pairContent(pairs[0] ?? authority));
      else if (published === 'required' || location.name === cast.objects.goes) {
        await putObject(controlPlane, location, contentOf(row));
      }
    }
    await using first = await startSyncing({ controlPlane, artefacts, destinationDir, once: true });
    await first.report;
    return new Subject(cast, { proxy, destinationDir, kubeconfig, namespace });
  }

  async start({ pingMs = 5000 } = {}): Promise<Syncing> {
    const { destinationDir } = this;
    const artefacts = this.#cast.artefacts(this.#namespace);
    const through = { recoveryKubeconfig: this.#kubeconfig };
    this.#syncing = await startSyncing({ controlPlane: through, artefacts, destinationDir, recheckMs: 200, pingMs });
    return this.#syncing;
  }

  /** Everything that can happen to an object, by the API server's own door. The pair is changed twice. */
  async change(): Promise<void> {
    await this.#putPair(2);
    await putObject(controlPlane, this.#object('settings'), { value: 'two' });
    await deleteObject(controlPlane, this.#object('goes'));
    await putObject(controlPlane, this.#object('comes'), { value: 'two' });
    await this.#putPair(3);
  }

  /** How many objects are watched. */
  get watched(): number {
    return this.#cast.artefacts(this.#namespace).filter(({ published }) => published !== undefined).length;
  }

  #object(name: Name): ObjectName {
    return { kind: kindOf(name), namespace: this.#namespace, name: this.#cast.objects[name] };
  }

  #putPair(generation: 2 | 3): Promise<void> {
    return putObject(controlPlane, this.#object('pair'), pairContent(pairs[generation - 1] ?? authority));
  }

  value(name: Name): string {
    const kind = name === 'settings' ? 'configmaps' : 'secrets';
    return readFileSync(join(this.destinationDir, kind, this.#cast.objects[name], 'value'), 'utf8');
  }

  /** Everything on disk is what the API has. */
  isCurrent(): boolean {
    try {
      const { destinationDir } = this;
      const gone = !readdirSync(join(destinationDir, 'secrets')).includes(this.#cast.objects.goes);
      return gone && this.value('settings') === 'two' && this.value('comes') === 'two' && this.reader.seen.at(-1) === 3;
    } catch {
      return false;
    }
  }

  /** Until the syncer has noticed that something is wrong, or all changes have arrived in spite of it. */
  async metFault(): Promise<boolean> {
    const met = (): boolean =>
      this.#syncing?.log.some(({ event, level }) => event === 'watch.failed' || level === 'error') === true;
    await eventually(() => expect(met() || this.isCurrent()).toBe(true), { everyMs: 10 });
    return met();
  }

  async expectCurrent(): Promise<void> {
    const { reader, destinationDir } = this;
    await eventually(() => expect(this.isCurrent()).toBe(true), { everyMs: 10 });
    await eventually(() => expect(this.#syncing?.health()).toMatchObject({ ok: true }));
    // The files are there a moment before the rest is tidied up and told.
    await eventually(() => {
      expect(layoutProblems(join(destinationDir, 'secrets', this.#cast.objects.pair), ['tls.crt', 'tls.key'])).toEqual(
        [],
      );
      expect(this.#syncing?.log.filter(({ event }) => event === 'sync.removed')).toHaveLength(1);
    });
    await reader.stop();
    expect(reader.bad).toEqual([]);
    expect(reader.seen).toEqual(reader.seen.toSorted((a, b) => a - b));
    expect(wideFiles(join(destinationDir, 'secrets'))).toEqual([]);
    const written = this.#syncing?.log.filter(({ event }) => event === 'sync.written') ?? [];
    const versions = written.map(({ secret, configMap, resourceVersion }) =>
      [secret, configMap, resourceVersion].map(String).join(' '),
    );
    expect(versions, 'nothing is written twice').toEqual([...new Set(versions)]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.reader.stop();
    await this.#syncing?.stop();
    await this.proxy.close();
  }
}

const statuses: readonly [string, Fault][] = [401, 403, 409, 410, 429, 500, 503].map((status) => [
  `${status}`,
  { kind: 'status', status, endWatches: true, ...(status === 429 && { retryAfter: 1 }) },
]);
/** Nothing gets through while they act. */
const closed: readonly [string, Fault][] = [
  ['refused', { kind: 'refused' }],
  ['no route to host', { kind: 'noRoute' }],
  ['reset', { kind: 'reset' }],
  ['EOF', { kind: 'eof' }],
  ['stall', { kind: 'stall' }],
  ['every answer lost', { kind: 'loseAnswer' }],
  ...statuses,
];
/** Some or all gets through. */
const leaky: readonly [string, Fault][] = [
  ['GOAWAY', { kind: 'goAway' }],
  ['GOAWAY with an error', { kind: 'goAway', code: 2 }],
  ['unexpected EOF of the connection in mid-event', { kind: 'unexpectedEof' }],
  ['unexpected EOF of the stream in mid-event', { kind: 'unexpectedEof', of: 'stream' }],
  ['unexpected EOF in mid-answer', { kind: 'cutAnswer' }],
  ['410 in a watch', { kind: 'expiredEvent' }],
  ['watches ended', { kind: 'endWatch' }],
  ['a line that is no JSON', { kind: 'garbage' }],
  ['slow', { kind: 'slow', delayMs: 100 }],
];

const casts = [fourObjects, openshiftPreset];

describe.each(casts)('runSyncer() of $name with a fault from the beginning', (cast) => {
  it.concurrent.each(closed)('keeps the files, then brings all changes: %s', async (_, fault) => {
    await using subject = await Subject.create(cast);
    await subject.proxy.inject(fault);
    const syncing = await subject.start();
    await subject.change();
    expect(await subject.metFault()).toBe(true);
    expect(syncing.health().ok).toBe(false);
    expect([subject.value('settings'), subject.value('goes')]).toEqual(['one', 'one']);
    expect(subject.reader.seen).toEqual([1]);
    await subject.proxy.clear();
    await subject.expectCurrent();
  });

  it.concurrent.each(leaky)('brings all changes: %s', async (_, fault) => {
    await using subject = await Subject.create(cast);
    await subject.proxy.inject(fault);
    await subject.start();
    await subject.change();
    await subject.metFault();
    await subject.proxy.clear();
    await subject.expectCurrent();
  });
});

describe.each(casts)('runSyncer() of $name with a fault while it watches', (cast) => {
  it.concurrent.each([...closed, ...leaky])('loses no change and shows no mixture: %s', async (_, fault) => {
    await using subject = await Subject.create(cast);
    const syncing = await subject.start();
    const isSynced = (): void => expect(syncing.health()).toMatchObject({ ok: true });
    await eventually(isSynced);
    await eventually(() =>
      expect(subject.proxy.seen.filter(({ path }) => path.includes('watch=true'))).toHaveLength(subject.watched),
    );
    await subject.proxy.inject(fault);
    await subject.change();
    // What hangs is noticed by its silence after a while; what matters here is what happens when it goes on.
    if (fault.kind !== 'stall' && fault.kind !== 'noRoute') await subject.metFault();
    await subject.proxy.clear();
    await subject.expectCurrent();
  });

  it.concurrent('gives up a connection that has died without a word', async () => {
    await using subject = await Subject.create(cast);
    const syncing = await subject.start({ pingMs: 500 });
    await eventually(() => expect(syncing.health()).toMatchObject({ ok: true }));
    await subject.proxy.inject({ kind: 'stall' });
    await subject.change();
    expect(await subject.metFault()).toBe(true);
    await subject.proxy.clear();
    await subject.expectCurrent();
  });

  it.concurrent.each<[string, Fault]>([
    ['reset', { kind: 'reset' }],
    ['EOF', { kind: 'eof' }],
    ['refused', { kind: 'refused' }],
    ['500', { kind: 'status', status: 500 }],
    ['403', { kind: 'status', status: 403 }],
  ])('repeats what it could not read before it wrote: %s', async (_, fault) => {
    await using subject = await Subject.create(cast);
    const syncing = await subject.start();
    await eventually(() => expect(syncing.health()).toMatchObject({ ok: true }));
    // The read of the object that goes before each write.
    const isRead = ({ path }: { path: string }): boolean => path.endsWith(`/secrets/${cast.objects.pair}`);
    const met = new Promise<void>((proceed) => {
      subject.proxy.atAnswer(isRead, () => subject.proxy.inject(fault).then(proceed));
    });
    await subject.change();
    await met;
    await subject.metFault();
    await subject.proxy.clear();
    await subject.expectCurrent();
  });
});
