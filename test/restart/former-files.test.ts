// Real processes with the names and flags of components, whose CA somebody else replaces while they run.
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { controlPlane } from '../../lib/components.ts';
import { systemClock } from '../../lib/clock.ts';
import { bootId } from '../../lib/host/proc.ts';
import { RunState } from '../../lib/host/state.ts';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { type Component, componentsOf } from '../../lib/restart/decide.ts';
import { formerHere, lookForFormer, markFormer } from '../../lib/restart/former-files.ts';
import { waitingServices } from '../../lib/restart/host-restarts.ts';
import { Markers } from '../../lib/restart/markers.ts';
import { createAuthority } from '../support/certificates/certificates.ts';
import { dated } from '../support/certificates/dated.ts';
import { signer } from '../support/facts.ts';
import { Processes } from './processes.ts';

const signal = new AbortController().signal;
const day = 86_400_000;
let directory: string;
let processes: Processes;
let pem: string;
let key: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'former-'));
  await mkdir(path('lock'));
  processes = new Processes();
  const authority = await createAuthority(path('authority'), { commonName: 'etcd-ca' });
  [pem, key] = [await readFile(authority.cert, 'utf8'), await readFile(authority.key, 'utf8')];
});
afterEach(async () => {
  await processes[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const path = (name: string): string => join(directory, name);
const reads = { component: 'etcd', needs: 'restart', proof: { kind: 'none' } } as const;
const etcdCa = (): ResolvedArtefact => ({
  ...signer,
  name: 'etcd-ca',
  location: { kind: 'pemPair', certFile: path('ca.crt'), keyFile: path('ca.key') },
  readers: [reads],
});
const today = Math.trunc(Date.now() / 1000) * 1000;
const inDays = (days: number): Date => new Date(today + days * day);
/** Until what follows is younger than what was, a file or a process, as the kernel counts: in hundredths of a second. */
const isLater = async (): Promise<void> => {
  const uptime = (): number => systemClock.uptimeSeconds() ?? expect.fail('no uptime');
  const before = uptime();
  await expect.poll(uptime, { interval: 20 }).toBeGreaterThan(before + 0.1);
};

const placeCa = (until: Date): Promise<void> =>
  writeFile(path('ca.crt'), dated(pem, key, new Date(until.getTime() - 400 * day), until));

interface Machine {
  readonly resolved: Resolved;
  readonly components: readonly Component[];
  readonly pid: number;
}

/** With an etcd that has loaded a CA that ends then. */
async function runsWith(until: Date, isService: boolean): Promise<Machine> {
  const resolved = { name: 'host', artefacts: [etcdCa()] };
  const components = componentsOf(resolved).map((one) => ({ ...one, isService }));
  await placeCa(until);
  await isLater();
  const [etcd] = components;
  if (etcd === undefined) throw new Error('no etcd');
  const { pid = 0 } = await processes.start({ ...etcd, flag: controlPlane.etcd.toldBy });
  await isLater();
  return { resolved, components, pid };
}

const markers = (): Markers => new Markers({ state: new RunState(path('lock')), onFailed: () => undefined });
const looking = ({ resolved, components }: Machine, boot = bootId()) => ({
  resolved,
  components,
  state: new RunState(path('lock'), { boot }),
  clock: systemClock,
});
/** As the run of the timer does it; the answer: the processes that are to be restarted. */
async function mark(machine: Machine): Promise<readonly number[]> {
  const found = await lookForFormer(looking(machine), 'keep');
  const proving = { apiServer: undefined, clock: systemClock, signal, hostName: 'node1' };
  const unused = { store: { read: async () => undefined }, connect: () => expect.fail('nobody is asked') };
  await markFormer(found, { ...proving, ...unused, ...machine, markers: markers() });
  return (await markers().look('etcd'))?.running.map(({ pid }) => pid) ?? [];
}
const shown = (machine: Machine) => formerHere({ ...looking(machine), markers: markers() });

describe.each([
  ['a static pod', false],
  ['a service', true],
])('etcd as %s', (_title, isService) => {
  it('that has loaded what has expired is marked once', async () => {
    const machine = await runsWith(inDays(-1), isService);
    expect(await mark(machine)).toEqual([]);
    await placeCa(inDays(3000));
    expect(await shown(machine)).toMatchObject([
      { artefact: 'etcd-ca', state: 'former', until: inDays(-1), isService },
    ]);
    expect(await mark(machine)).toEqual([machine.pid]);
    expect((await markers().look('etcd'))?.until).toEqual(inDays(-1));
    expect(await mark(machine)).toEqual([machine.pid]);
  });

  it('that has loaded what is valid is shown, and not marked', async () => {
    const machine = await runsWith(inDays(100), isService);
    await mark(machine);
    await placeCa(inDays(3000));
    const restartsAt = inDays(isService ? 100 : 99);
    expect(await shown(machine)).toMatchObject([{ until: inDays(100), restartsAt }]);
    expect(await mark(machine)).toEqual([]);
  });

  it('of which nobody knows what it has loaded is shown, and not marked', async () => {
    const machine = await runsWith(inDays(100), isService);
    await placeCa(inDays(3000));
    const found = await shown(machine);
    expect(found).toMatchObject([{ state: 'unknown' }]);
    expect(found[0]?.until).toBeUndefined();
    expect(await mark(machine)).toEqual([]);
  });
});

it('a service that is marked is named by its marker, and not twice', async () => {
  const machine = await runsWith(inDays(-1), true);
  await mark(machine);
  await placeCa(inDays(3000));
  await mark(machine);
  expect(await shown(machine)).toEqual([]);
  expect(await waitingServices(machine.components, markers())).toHaveLength(1);
});

it.each<[string, () => Promise<unknown>]>([
  ['of another boot', async () => writeFile(path('lock/loaded-host'), (await note()).replace(bootId(), 'another'))],
  ['that is damaged', async () => writeFile(path('lock/loaded-host'), (await note()).slice(0, 100))],
  ['with other fields', async () => writeFile(path('lock/loaded-host'), (await note()).replaceAll('digest', 'd'))],
])('a note %s counts for nothing', async (_title, change) => {
  const machine = await runsWith(inDays(100), false);
  await mark(machine);
  await change();
  await placeCa(inDays(3000));
  expect(await shown(machine)).toMatchObject([{ state: 'unknown' }]);
});
const note = (): Promise<string> => readFile(path('lock/loaded-host'), 'utf8');

it('a run with another inventory takes nothing from what is known', async () => {
  const machine = await runsWith(inDays(-1), false);
  await mark(machine);
  await mark({ ...machine, resolved: { name: 'node-ca', artefacts: [] }, components: [] });
  await placeCa(inDays(3000));
  expect(await shown(machine)).toMatchObject([{ state: 'former' }]);
});

it('a look that keeps no note leaves nothing behind, and a note is for root alone', async () => {
  const machine = await runsWith(inDays(100), false);
  await shown(machine);
  await expect(note()).rejects.toThrow('ENOENT');
  await mark(machine);
  expect(await note()).not.toContain('PRIVATE');
});
