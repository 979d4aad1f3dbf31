// One component after the other, each when those that it needs are back. Real processes with their names and flags.
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ComponentName, controlPlane } from '../../lib/components.ts';
import { systemClock } from '../../lib/clock.ts';
import { startOf } from '../../lib/host/proc.ts';
import { RunState } from '../../lib/host/state.ts';
import type { ResolvedArtefact } from '../../lib/inventory/model.ts';
import { createLog } from '../../lib/log.ts';
import { type Component, componentsOf } from '../../lib/restart/decide.ts';
import { restartMarked, waitingServices } from '../../lib/restart/host-restarts.ts';
import { restartProcess } from '../../lib/restart/processes.ts';
import { createMarkingStore, Markers } from '../../lib/restart/markers.ts';
import { createAuthority } from '../support/certificates/certificates.ts';
import { dated } from '../support/certificates/dated.ts';
import { eventually } from '../support/eventually.ts';
import { signer, target } from '../support/facts.ts';
import { isGone, Processes } from './processes.ts';

let directory: string;
let processes: Processes;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'restart-order-'));
  processes = new Processes();
});
afterEach(async () => {
  await processes[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const signal = AbortSignal.timeout(60_000);
const path = (name: string): string => join(directory, name);
const reads = (component: string) => ({ component, needs: 'restart', proof: { kind: 'none' } }) as const;
const kubeconfig = (component: string): ResolvedArtefact => ({
  ...target,
  name: `${component}.conf`,
  location: { kind: 'kubeconfig', file: path(component), endpoint: 'local' },
  readers: [reads(component)],
});
const etcdCa = (): ResolvedArtefact => ({
  ...signer,
  name: 'etcd-ca',
  location: { kind: 'pemPair', certFile: path('etcd-ca.crt'), keyFile: path('etcd-ca.key') },
  readers: [reads('etcd'), reads('kube-apiserver')],
});
const markers = (): Markers => new Markers({ state: new RunState(path('lock')), onFailed: () => undefined });

/** Components whose files have just been replaced while they ran; the certificate that they have read ends then. */
async function renewedBesides(names: readonly ComponentName[], until?: Date): Promise<readonly Component[]> {
  const found = until && { version: 'first', entries: { 'tls.crt': await endingAt(until) }, annotations: {} };
  const artefacts = [etcdCa(), kubeconfig('kubelet'), kubeconfig('kube-scheduler')];
  const components = componentsOf({ name: 'host', artefacts });
  for (const { file } of components) await writeFile(file, 'first');
  for (const name of names) await start(components.find((one) => one.name === name));
  const write = async (file: string): Promise<'written'> => {
    await writeFile(`${file}.new`, 'second');
    await rename(`${file}.new`, file);
    return 'written';
  };
  for (const { name, location } of artefacts) {
    if (name === 'kubelet.conf' || !('file' in location || 'certFile' in location)) continue;
    const file = 'file' in location ? location.file : location.certFile;
    const disk = { read: async () => found, write: () => write(file) };
    const store = createMarkingStore(disk, components, markers());
    await store.write(location, { entries: {}, annotations: {} }, 'absent', signal);
  }
  return components;
}

async function endingAt(until: Date): Promise<Buffer> {
  const authority = await createAuthority(path('authority'), { commonName: 'etcd-ca' });
  const [pem, key] = [await readFile(authority.cert, 'utf8'), await readFile(authority.key, 'utf8')];
  return Buffer.from(dated(pem, key, new Date(until.getTime() - 86_400_000), until));
}

const started = new Map<string, number>();
async function start(component: Component | undefined): Promise<void> {
  if (component === undefined) throw new Error('no such component');
  const { name, file } = component;
  started.set(name, (await processes.start({ name, file, flag: controlPlane[name].toldBy })).pid ?? 0);
}
const runs = async (name: ComponentName): Promise<boolean> => !(await isGone(started.get(name) ?? 0));
/** Resolves when it has ended: a signal is only sent, and on a busy machine its process is seen for a while. */
async function kill(name: ComponentName): Promise<void> {
  process.kill(started.get(name) ?? 0, 'SIGKILL');
  await eventually(async () => expect(await runs(name)).toBe(false));
}
const all: readonly ComponentName[] = ['etcd', 'kube-apiserver', 'kube-scheduler'];
const running = (): Promise<boolean[]> => Promise.all(all.map(runs));

async function restart(components: readonly Component[], problem?: string, quorum?: string) {
  const seen: { quorum?: boolean[]; etcd?: boolean[]; api?: boolean[] } = {};
  const ended: string[] = [];
  const outcomes = await restartMarked({
    components,
    markers: markers(),
    isReady: () => true,
    quorumProblem: async () => {
      seen.quorum = await running();
      return quorum;
    },
    etcdProblem: async () => {
      seen.etcd = await running();
      return problem;
    },
    apiAnswers: async () => {
      seen.api = await running();
    },
    clock: systemClock,
    log: createLog({ write: (line) => ended.push((JSON.parse(line) as { component: string }).component) }),
    signal,
  });
  return { seen, ended, outcomes: outcomes.map(({ component: { name }, failure }) => [name, failure]) };
}

it('kube-apiserver and etcd, then the others when the API answers', async () => {
  const components = await renewedBesides(['kubelet', ...all]);
  const { seen, outcomes, ended } = await restart(components);
  expect(outcomes).toEqual([
    ['etcd', undefined],
    ['kube-apiserver', undefined],
    ['kube-scheduler', undefined],
  ]);
  expect(seen).toEqual({ quorum: [true, true, true], api: [false, false, true] });
  // It watches etcd, which would wait for it.
  expect(ended.filter((line) => /etcd|apiserver/.test(line))).toEqual(['kube-apiserver', 'etcd']);
  expect(await running()).toEqual([false, false, false]);
  expect(await runs('kubelet')).toBe(true);
});

it('kube-apiserver stays while an etcd is not healthy that has read the new CA, and the next run restarts it', async () => {
  const components = await renewedBesides(['kubelet', 'kube-apiserver', 'kube-scheduler']);
  await start(components.find(({ name }) => name === 'etcd'));
  const { outcomes } = await restart(components, 'it has no leader');
  expect(outcomes.slice(0, 2)).toEqual([
    ['etcd', undefined],
    ['kube-apiserver', 'kube-apiserver is not restarted before etcd is healthy: it has no leader'],
  ]);
  expect(await running()).toEqual([true, true, false]);
  expect((await restart(components)).outcomes).toEqual([['kube-apiserver', undefined]]);
  expect(await running()).toEqual([true, false, false]);
});

describe('etcd while the others would have no quorum', () => {
  const quorum = 'of 3 members 2 others must be healthy, 1 are: member "c" is not healthy';
  const failure = `etcd is not restarted before the other members keep a quorum: ${quorum}`;

  it('stays, and kube-apiserver with it; the next run asks again', async () => {
    const components = await renewedBesides(['kubelet', ...all], new Date(Date.now() + 3_600_000));
    expect((await restart(components, undefined, quorum)).outcomes).toEqual([
      ['etcd', failure],
      ['kube-apiserver', 'kube-apiserver is not restarted before etcd is'],
      ['kube-scheduler', undefined],
    ]);
    expect(await running()).toEqual([true, true, false]);
    expect((await restart(components)).outcomes.map(([name]) => name)).toEqual(['etcd', 'kube-apiserver']);
    expect(await running()).toEqual([false, false, false]);
  });

  it('is restarted once what it has read has expired, and nobody is asked', async () => {
    const components = await renewedBesides(['kubelet', ...all], new Date(Date.now() - 1000));
    const { seen, outcomes } = await restart(components, undefined, quorum);
    expect(outcomes[0]).toEqual(['etcd', undefined]);
    expect(seen.quorum).toBeUndefined();
  });

  it('stays where it is not known what it has read', async () => {
    const components = await renewedBesides(['kubelet', 'etcd']);
    expect((await restart(components, undefined, quorum)).outcomes[0]).toEqual(['etcd', failure]);
  });
});

it('none of them while no kubelet runs', async () => {
  const { outcomes } = await restart(await renewedBesides(all));
  expect(outcomes.map(([, failure]) => failure)).toEqual(
    all.map((name) => `${name} is not restarted while no kubelet runs, which would start it again`),
  );
  expect(await running()).toEqual([true, true, true]);
});

it('kube-apiserver once, whose marker was left by a run that died while it wrote', async () => {
  const components = await renewedBesides(['kubelet', ...all]);
  await markers().set('kube-apiserver', { state: 'writing', running: [] });
  const { outcomes, ended } = await restart(components);
  expect(outcomes.map(([, failure]) => failure)).toEqual([undefined, undefined, undefined]);
  expect(ended).toEqual(['kube-apiserver', 'etcd', 'kube-scheduler']);
  expect(await markers().look('kube-apiserver')).toBeUndefined();
});

describe('etcd as a service of its own', () => {
  const service = async (until: Date): Promise<readonly Component[]> => {
    const components = await renewedBesides(['etcd'], until);
    return components.flatMap((one) => (one.name === 'etcd' ? [{ ...one, isService: true }] : []));
  };
  const inDays = (days: number): Date => new Date(Date.now() + days * 86_400_000);
  const named = () => expect.stringMatching(`^etcd-ca: etcd \\(process ${started.get('etcd')}\\) runs since before`);

  it('waits while what it has read is valid, and status names it until it was started again', async () => {
    const components = await service(inDays(1));
    expect((await restart(components)).outcomes).toEqual([]);
    expect(await runs('etcd')).toBe(true);
    expect(await waitingServices(components, markers())).toEqual([named()]);
    await kill('etcd');
    await start(components[0]);
    expect(await waitingServices(components, markers())).toEqual([]);
    expect((await restart(components)).outcomes).toEqual([]);
    expect(await runs('etcd')).toBe(true);
    expect(await markers().look('etcd')).toBeUndefined();
  });

  it('is named no more when it was started again, also where a run died while it wrote', async () => {
    const components = await service(inDays(1));
    await markers().set('etcd', { state: 'writing', running: [], until: inDays(1) });
    expect((await restart(components)).outcomes).toEqual([]);
    expect(await waitingServices(components, markers())).toEqual([named()]);
    await kill('etcd');
    await start(components[0]);
    expect(await waitingServices(components, markers())).toEqual([]);
  });

  it('that has read what has expired is restarted by its unit alone', async () => {
    const components = await service(inDays(-1));
    expect((await restart(components)).outcomes).toEqual([
      ['etcd', expect.stringContaining('no unit of systemd has started it; restart it by hand')],
    ]);
    expect(await runs('etcd')).toBe(true);
    expect(await waitingServices(components, markers())).toEqual([named()]);
  });
});

it('kube-apiserver does not wait for those who watch it', async () => {
  const components = await renewedBesides(['kubelet', 'etcd']);
  const one = components.find(({ name }) => name === 'kube-apiserver') ?? expect.fail('no kube-apiserver');
  const flag = controlPlane[one.name].toldBy;
  const watched = await processes.start({ ...one, flag, endsAtSecond: true });
  const reader = {
    pid: watched.pid ?? 0,
    started: startOf(watched.pid ?? 0) ?? 0,
    argv: [],
    mountinfo: '',
    cgroup: '',
  };
  const asRoot = { isInOurPidNamespace: true, isPrivileged: true, environ: new Map<string, string>() };
  const done = await restartProcess(one, { ...reader, ...asRoot }, { clock: systemClock, signal });
  expect(done).toContain('SIGTERM');
  expect(await isGone(reader.pid)).toBe(true);
});

it('nobody who has started since: they have read the new file', async () => {
  const components = await renewedBesides(['kubelet']);
  for (const name of all) await start(components.find((one) => one.name === name));
  await restart(components);
  expect(await running()).toEqual([true, true, true]);
});
