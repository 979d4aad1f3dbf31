// The main job, whole: a control plane of the kubernetes preset, off until everything but localhost-recovery has
// expired, etcd's certificates included; switched on; three regen processes race, one syncer publishes; nobody touches
// anything. Then others say whether it is well.
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseCertificates } from '../../lib/pki/certificate.ts';
import {
  aggregatedApiAnswers,
  clientsAuthenticate,
  etcdServes,
  leavesVerify,
  podIsScheduled,
  requestIsSigned,
} from '../support/cluster/checks.ts';
import { eventually } from '../support/eventually.ts';
import { watchGenerations, type Generations } from '../support/stories/generations.ts';
import { freePorts } from '../support/cluster/ports.ts';
import { isRecovery, type Line, RecoveryWorld, type Tool } from '../support/cluster/recovery-world.ts';

let world: RecoveryWorld;
let generations: Generations;
let regens: Tool[] = [];
let syncer: Tool;
let healthPort: number;
const hostLines: Line[] = [];

beforeAll(async () => {
  world = await RecoveryWorld.create();
  await world.expireAll();
  generations = await watchGenerations(world);
  await world.controlPlane.kill();
  [healthPort = 0] = await freePorts(1);
  await world.healHost((line) => hostLines.push(line));
  regens = [1, 2, 3].map(() => world.startTool(['--mode=regen', '--locations=api']));
  syncer = world.startTool(['--mode=syncer', `--health-probe-bind-address=127.0.0.1:${healthPort}`]);
  await world.controlPlane.start({ wait: false });
  await eventually(
    async () => {
      if (!regens.some(finished)) throw new Error('no regen has finished a recovery');
      const { stdout } = await world.status('--output=json');
      const rows = rowsOf(stdout).filter(({ state, onDisk = 'same' }) => state !== 'OK' || onDisk !== 'same');
      if (rows.length > 0) throw new Error(`not recovered: ${rows.map(({ name }) => name).join(', ')}`);
    },
    { everyMs: 250 },
  );
});
afterAll(() => world?.[Symbol.asyncDispose]());

const finished = ({ lines }: Tool): boolean => lines.some(({ event }) => event === 'recovery.finished');

interface Row {
  readonly name: string;
  readonly state: string;
  readonly onDisk?: string;
  readonly expirationDate?: string;
}

function rowsOf(json: string): Row[] {
  const status = JSON.parse(json) as Record<'certificates' | 'certificateAuthorities' | 'objects', Row[]>;
  return [...status.certificates, ...status.certificateAuthorities, ...status.objects];
}

describe('a control plane that was off until everything but localhost-recovery had expired', () => {
  it('has its own files healed before it starts, with no API', () => {
    const healed = hostLines
      .filter(({ event }) => /regenerated|updated/.test(event))
      .map(({ fields }) => fields['artefact']);
    expect(new Set(healed)).toEqual(new Set(['etcd-ca', 'etcd-client', 'etcd-peer', 'etcd-server', 'etcd-signer']));
    expect(healed.length).toBe(5);
  });

  it('comes back with exactly one new generation of every object, although three race', async () => {
    const counted = await generations.close();
    const wanted = world.resolved.artefacts
      .filter(({ location, kind }) => 'namespace' in location && kind !== 'keyPair')
      .map((artefact) => [artefact.name, isRecovery(artefact) ? 1 : 2] as const);
    expect(counted).toEqual(Object.fromEntries(wanted));
  });

  it('leaves localhost-recovery and the service-account key alone', () => {
    const renewed = regens.flatMap(({ lines }) =>
      lines.filter(({ event }) => /regenerated|updated/.test(event)).map(({ fields }) => String(fields['artefact'])),
    );
    expect(renewed.filter((name) => name.startsWith('localhost-recovery') || name.startsWith('service'))).toEqual([]);
  });

  it('has leaves that openssl verifies', async () => {
    expect(await leavesVerify(world)).toContain('11 leaves');
  });
  it('knows kubectl by each renewed client certificate', async () => {
    await clientsAuthenticate(world);
  });
  it('has an etcd that serves its renewed certificate', async () => {
    await etcdServes(world);
  });
  it('signs a request with the renewed signer', async () => {
    await requestIsSigned(world);
  });
  it('reaches an aggregated API through the renewed proxy client', async () => {
    await aggregatedApiAnswers(world);
  });
  it('places a pod', async () => {
    await podIsScheduled(world);
  });

  it('has its use proven: served certificates, renewed leases, a signed request', async () => {
    const proven = ['kube-apiserver-serving', 'localhost-serving', 'localhost-recovery-serving', 'csr-signer'];
    const all = [...proven, 'kube-controller-manager-client', 'kube-scheduler-client', 'aggregator-client'];
    await eventually(() => {
      const given = syncer.lines
        .filter(({ event }) => event === 'proof.succeeded')
        .map(({ fields }) => fields['artefact']);
      expect(given).toEqual(expect.arrayContaining(all));
    });
  });

  it('answers probes and shows its metrics', async () => {
    const get = async (path: string) => fetch(`http://127.0.0.1:${healthPort}${path}`);
    expect((await get('/livez')).status).toBe(200);
    expect(await (await get('/readyz?verbose')).text()).toContain('[+]syncer ok');
    expect(await (await get('/metrics')).text()).toContain('kube_cert_recovery_build_info');
  });

  it('reports healthy and exits 0', async () => {
    const { code, stdout } = await world.status();
    expect(stdout).toContain('Everything is as it should be');
    expect(code).toBe(0);
  });

  it('wrote no key, no token and no certificate to any log', () => {
    const token = readFileSync(`${world.out}/credentials/regen/token`, 'utf8').trim();
    const lines = [...regens, syncer].flatMap((tool) => tool.lines).map((line) => JSON.stringify(line));
    expect(lines.length).toBeGreaterThan(50);
    for (const line of lines) {
      expect(line).not.toContain('-----BEGIN');
      expect(line).not.toContain(token);
    }
  });

  it('stops cleanly on SIGTERM', async () => {
    const codes = await Promise.all([...regens, syncer].map((tool) => tool.stop()));
    expect(codes).toEqual([0, 0, 0, 0]);
  });

  it('publishes what the API holds, with the modes of keys and certificates', async () => {
    const [leaf] = parseCertificates(Buffer.from(await world.read('kube-apiserver-serving')), 'leaf');
    expect(leaf?.facts.hostnames).toEqual(
      expect.arrayContaining(['127.0.0.1', 'kubernetes', 'kubernetes.default.svc.cluster.local']),
    );
  });
});
