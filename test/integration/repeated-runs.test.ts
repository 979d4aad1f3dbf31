// Runs again and again in one process, as on each node of a cluster, against a real API server: a file follows an object
// in the API, others are made anew where they are lost, also while the API is away.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { runCommand } from '../../cmd/run.ts';
import { type Clock, systemClock } from '../../lib/clock.ts';
import { createAuthority } from '../support/certificates/certificates.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { type Line, Tool } from '../support/cluster/recovery-world.ts';
import { eventually } from '../support/eventually.ts';

const namespace = 'kube-cert-recovery';
const reader = 'reader';

let root: string;
let controlPlane: ControlPlane;
let tool: Tool;
let directory: string;
/** CA certificates by name. */
const pem: Record<string, string> = {};

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'repeated-runs-'));
  controlPlane = await startControlPlane();
  await controlPlane.kubectl('create', 'namespace', namespace);
  for (const name of ['one', 'two', 'three']) {
    const { cert } = await createAuthority(join(root, name), { commonName: name });
    pem[name] = await readFile(cert, 'utf8');
  }
});
afterEach(() => tool?.stop('SIGKILL'));
afterAll(async () => {
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

const bundle = (...names: readonly string[]): string => names.map((name) => pem[name]).join('');
const at = (file: string): string => join(directory, file);

/** Writes the ConfigMap. */
async function publish(...names: readonly string[]): Promise<void> {
  const metadata = { name: 'node-ca', namespace };
  const data = { 'ca.crt': bundle(...names) };
  await controlPlane.apply(JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data }));
}

/** The CAs of a ConfigMap in a file that holds the first one, and a CA with its bundle that are made on the machine. */
async function configured(kubeconfig: string): Promise<string> {
  directory = await mkdtemp(join(root, 'node-'));
  await writeFile(at('client-ca.crt'), bundle('one'));
  const pair = { certFile: at('ca.crt'), keyFile: at('ca.key') };
  const life = { validity: '3650d', refresh: '2920d' };
  const artefacts = [
    { kind: 'external', name: 'client-ca', location: { configMap: 'node-ca', namespace, key: 'ca.crt' } },
    {
      kind: 'external',
      name: 'kubelet-client-ca',
      followedAs: 'clientCa',
      inputs: ['client-ca'],
      location: { pemFile: at('client-ca.crt') },
    },
    { kind: 'signer', name: 'ca', location: { pemPair: pair }, commonName: 'ca', owned: true, ...life },
    { kind: 'caBundle', name: 'trust', location: { pemFile: at('trust.crt') }, signers: ['ca'] },
  ];
  const regen = { restart: true, backupDir: at('backups'), lockDir: at('lock'), clockSynchronised: true };
  const config = {
    modes: ['regen'],
    kubeconfig,
    inventory: { name: 'node', artefacts },
    regen,
    healthProbeBindAddress: '0',
  };
  const head = { apiVersion: 'kube-cert-recovery/v1alpha1', kind: 'Configuration' };
  await writeFile(at('config.yaml'), JSON.stringify({ ...head, ...config }));
  return at('config.yaml');
}

async function start(kubeconfig: string): Promise<void> {
  tool = new Tool([`--config=${await configured(kubeconfig)}`]);
}

const content = (file: string): Promise<string> => readFile(at(file), 'utf8').catch(() => '');
const holds = (...names: readonly string[]): Promise<void> =>
  eventually(async () => expect(await content('client-ca.crt')).toBe(bundle(...names)));
const said = (event: string): readonly Line['fields'][] =>
  tool.lines.filter((line) => line.event === event).map(({ fields }) => fields);
/** The bundle of this machine is made again. */
async function isRepaired(): Promise<void> {
  await rm(at('trust.crt'), { force: true });
  await eventually(async () => expect(await content('trust.crt')).toBe(await readFile(at('ca.crt'), 'utf8')));
}

describe('--mode=regen --restart without --once', () => {
  it('follows the API, while it is away repairs files alone, and follows it again', async () => {
    await publish('one');
    await start(controlPlane.adminKubeconfig);
    await eventually(() => expect(said('regen.summary')).toHaveLength(1));
    await publish('one', 'two');
    await holds('one', 'two');

    await controlPlane.stopComponent('kube-apiserver');
    await isRepaired();
    await holds('one', 'two');

    controlPlane.startComponent('kube-apiserver');
    await controlPlane.ready();
    await publish('one', 'two', 'three');
    await holds('one', 'two', 'three');
    expect(await tool.stop()).toBe(0);
    expect(said('regen.summary')).toHaveLength(1);
    expect(said('run.failed')).toEqual([]);
  });

  it('repairs files and ends when it is asked to, where the API has never answered', async () => {
    await controlPlane.stopComponent('kube-apiserver');
    await start(controlPlane.adminKubeconfig);
    await isRepaired();
    expect(await tool.stop()).toBe(0);
    expect(said('process.stopped')).toHaveLength(1);
    controlPlane.startComponent('kube-apiserver');
    await controlPlane.ready();
  });

  it('follows without the right to watch, which is said once', async () => {
    await controlPlane.kubectl('create', 'serviceaccount', reader, '-n', namespace);
    const names = ['--resource=configmaps', '--resource-name=node-ca'];
    await controlPlane.kubectl('create', 'role', reader, '-n', namespace, '--verb=get', ...names);
    const subject = `--serviceaccount=${namespace}:${reader}`;
    await controlPlane.kubectl('create', 'rolebinding', reader, '-n', namespace, `--role=${reader}`, subject);
    const token = (await controlPlane.kubectl('create', 'token', reader, '-n', namespace)).trim();
    const { url: server, servingCa: certificateAuthority } = controlPlane;
    const kubeconfig = await writeKubeconfig(join(root, 'reader.conf'), { server, certificateAuthority, token });
    await publish('one');
    await start(kubeconfig);
    await eventually(() => expect(said('watch.failed')).toHaveLength(1));
    await publish('one', 'two');
    await holds('one', 'two');
    expect(said('watch.failed')).toMatchObject([{ code: 'KubeForbidden' }]);
  });

  it('is woken by a change, whatever its clock says', async () => {
    await publish('one');
    const lines: string[] = [];
    const stop = new AbortController();
    const stderr = { write: (line: string) => lines.push(line) };
    const io = { argv: [], env: {}, cwd: root, stdout: stderr, stderr, signal: stop.signal };
    const sleep: Clock['sleep'] = (ms, signal) => systemClock.sleep(ms < 30_000 ? ms : 3_600_000, signal);
    const ended = runCommand({ config: await configured(controlPlane.adminKubeconfig) }, io, { ...systemClock, sleep });
    await eventually(() => expect(lines.join('')).toContain('regen.summary'));
    for (const names of [
      ['one', 'two'],
      ['one', 'two', 'three'],
    ]) {
      await publish(...names);
      await holds(...names);
    }
    stop.abort();
    expect(await ended).toBe(0);
  });
});
