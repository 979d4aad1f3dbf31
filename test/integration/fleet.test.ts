// `status --fleet` against a real API server with a thousand Nodes, and the report of a node by its kubelet's own
// credential.
import { execFile, execFileSync } from 'node:child_process';
import { hash, X509Certificate } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAuthority } from '../support/certificates/certificates.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';
import { apiRequest } from '../support/cluster/api-client.ts';
import { readAudit } from '../support/cluster/audit.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import {
  askAll,
  bundlesAnnotation,
  createFleet,
  leases,
  microTime,
  nodeName,
  reportOf,
} from '../support/cluster/fleet.ts';
import { firstCodes, page, section } from '../docs/markdown.ts';
import { Worker } from '../support/cluster/worker-machine.ts';
import { Processes } from '../restart/processes.ts';

const program = fileURLToPath(new URL('../../dist/app/main.mjs', import.meta.url));
const namespace = 'kube-cert-recovery';
const count = 1000;

let root: string;
let controlPlane: ControlPlane;
/** PEM of the CA of the cluster, and of others. */
let own: string;
let next: string;
let third: string;
/** Of an account that may read what the command reads, and nothing else. */
let reader: string;
/** Of an account without rights. */
let stranger: string;

const printOf = (pem: string): string => hash('sha256', new X509Certificate(pem).raw).slice(0, 16);

interface Outcome {
  readonly exit: number;
  readonly out: string;
  readonly err: string;
}

/** The built program, in a small heap. */
const program64 = (...argv: readonly string[]): Promise<Outcome> =>
  new Promise((resolve) => {
    const own64 = ['--max-old-space-size=64', program, ...argv];
    execFile(process.execPath, own64, { maxBuffer: 1 << 26 }, (err, out, stderr) => {
      resolve({ exit: err === null ? 0 : typeof err.code === 'number' ? err.code : -1, out, err: stderr });
    });
  });

const fleet = (kubeconfig: string, ...more: readonly string[]): Promise<Outcome> =>
  program64('status', '--fleet', `--kubeconfig=${kubeconfig}`, ...more);

async function publish(...cas: readonly string[]): Promise<void> {
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const data = { 'client-ca.crt': cas.join(''), 'server-ca.crt': cas.join('') };
  const body = { metadata: { name: 'node-ca' }, data };
  const { status } = await controlPlane.admin(`${path}/node-ca`, { method: 'PUT', body });
  if (status !== 200) expect(await controlPlane.admin(path, { method: 'POST', body })).toMatchObject({ status: 201 });
}

/** Kubeconfig of a new account with these rights. */
async function account(name: string, rules: string): Promise<string> {
  await controlPlane.apply(`
apiVersion: v1
kind: ServiceAccount
metadata: { namespace: ${namespace}, name: ${name} }
${rules}`);
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`;
  const { body } = await controlPlane.admin(path, { method: 'POST', body: { spec: { expirationSeconds: 3600 } } });
  return writeKubeconfig(join(root, `${name}.conf`), {
    server: controlPlane.url,
    certificateAuthority: controlPlane.recoveryCa,
    tlsServerName: 'localhost-recovery',
    token: (body as { readonly status: { readonly token: string } }).status.token,
  });
}

const rights = (kind: string, where: string, rule: string): string => `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ${kind}
metadata: { name: fleet-reader${where} }
rules: [${rule}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ${kind}Binding
metadata: { name: fleet-reader${where} }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ${kind}, name: fleet-reader }
subjects: [{ kind: ServiceAccount, namespace: ${namespace}, name: reader }]
`;

/** What the node at this place of a hundred says, and how old its Lease is. */
function simulated(at: number) {
  const [held, minute] = [[printOf(own), printOf(next)], 60_000];
  const now = new Date();
  const ago = (ms: number): Date => new Date(now.getTime() - ms);
  const states = [
    { report: reportOf(held.slice(0, 1)), renewedAt: now },
    { report: reportOf(held, false), renewedAt: now },
    { report: undefined, renewedAt: now },
    { report: reportOf(held), renewedAt: ago(60 * minute) },
    { report: reportOf(held.slice(0, 1)), renewedAt: undefined },
    { report: '\u001b[2J{"bundles":', renewedAt: now },
  ];
  return { name: nodeName(at), ...(states[at % 100] ?? { report: reportOf(held), renewedAt: now }) };
}

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'fleet-'));
  const flags = { 'kube-apiserver': { 'enable-admission-plugins': 'NodeRestriction' } };
  controlPlane = await startControlPlane({ audit: true, flags });
  await controlPlane.kubectl('create', 'namespace', namespace);
  own = await readFile(controlPlane.pki.clusterCa.cert, 'utf8');
  const ca = async (commonName: string): Promise<string> =>
    readFile((await createAuthority(join(root, commonName), { commonName })).cert, 'utf8');
  [next, third] = [await ca('next'), await ca('third')];
  await publish(own, next);
  const ofNodes = `{ apiGroups: [''], resources: [nodes], verbs: [list] }`;
  const ofLeases = `{ apiGroups: [coordination.k8s.io], resources: [leases], verbs: [list] }`;
  const ofSource = `{ apiGroups: [''], resources: [configmaps], resourceNames: [node-ca], verbs: [get] }`;
  await createFleet(
    controlPlane,
    Array.from({ length: count }, (_, at) => simulated(at)),
  );
  reader = await account(
    'reader',
    rights('ClusterRole', '', ofNodes) +
      rights('Role', ', namespace: kube-node-lease', ofLeases) +
      rights('Role', `, namespace: ${namespace}`, ofSource),
  );
  stranger = await account('stranger', '');
});
afterAll(async () => {
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

interface Info {
  readonly lagging: number;
  readonly nodes: readonly { readonly name: string; readonly state: string; readonly lags: boolean }[];
}

describe('status --fleet', () => {
  it('tells a thousand nodes apart, and asks once for each resource', async () => {
    const { exit, out } = await fleet(reader, '-o', 'json');
    const { nodes, lagging } = JSON.parse(out) as Info;
    const counts = Object.fromEntries(
      [...new Set(nodes.map(({ state }) => state))].map((state) => [
        state,
        nodes.filter((one) => one.state === state).length,
      ]),
    );
    expect(counts).toEqual({ current: 940, behind: 10, 'not loaded': 10, 'no report': 20, off: 20 });
    expect([exit, lagging, nodes.length]).toEqual([1, 50, count]);
    expect(nodes.filter(({ state, lags }) => state === 'off' && lags).map(({ name }) => name)).toEqual(
      Array.from({ length: 10 }, (_, at) => nodeName(at * 100 + 4)),
    );
    const asked = (await readAudit(controlPlane.directory)).map(
      ({ verb, resource, code }) => `${verb} ${resource} ${code}`,
    );
    asked.sort((one, other) => (one < other ? -1 : 1));
    expect(asked).toEqual(['get configmaps 200', 'list leases 200', 'list nodes 200']);
  });

  it('ends in a line for people, whose terminal obeys no node', async () => {
    const { out } = await fleet(reader);
    expect(out).not.toContain('\u001b');
    expect(out.trimEnd().split('\n').at(-1)).toBe(
      'Nodes: 940 current, 10 behind, 10 not loaded, 20 no report, 20 off. ' +
        '50 of 1000 nodes are not known to trust all 2 CAs.',
    );
    expect(out).toMatch(/^worker-0000 +behind +kubelet-client-ca +Nov 01, 2026 00:00 UTC +CN=next \([0-9a-f]{16}\)$/m);
  });

  it('is asked as docs/status.md says', async () => {
    const text = section(page('docs/status.md'), 'The nodes of a cluster');
    const commands = /```shell\n([^`]+)```/.exec(text)?.[1]?.trim().split('\n') ?? [];
    expect(commands).toHaveLength(2);
    const outs = commands.map((command) =>
      execFileSync(
        'bash',
        ['-c', `program=$0; kube-cert-recovery() { node "$program" "$@"; }; ${command}; true`, program],
        {
          env: { ...process.env, KUBECONFIG: reader },
          encoding: 'utf8',
        },
      ),
    );
    expect(outs[0]).toMatch(/^NODE +STATE +BUNDLE +SINCE +MISSING\n/);
    expect(outs[1]?.trimEnd().split('\n')).toHaveLength(50);
    const states = firstCodes(text).toSorted();
    expect(states).toEqual(['behind', 'current', 'no report', 'not loaded', 'off']);
  });

  it('compares with nothing where there is nothing to compare with', async () => {
    const none = await fleet(reader, '--preset=kubeadm');
    expect([none.exit, none.err]).toEqual([
      2,
      expect.stringMatching(/no file of inventory "kubeadm" follows an object/),
    ]);
    await publish('');
    const empty = await fleet(reader);
    expect([empty.exit, empty.err]).toEqual([
      1,
      expect.stringMatching(/node-ca" client-ca.crt is absent, or holds no CA/),
    ]);
    await publish(own, next);
  });

  it('says what it may not read', async () => {
    const { exit, err } = await fleet(stranger);
    expect([exit, err]).toEqual([1, expect.stringMatching(/^Cannot get ConfigMap .* 403 Forbidden/)]);
  });

  it('keeps nothing of what nodes say but their rows: a hundred megabytes fit in a heap of 64', async () => {
    const text = `\u001b[2J${'x'.repeat(250_000)}`;
    const body = { metadata: { annotations: { [bundlesAnnotation]: text } } };
    const path = (at: number): string => `/api/v1/nodes/${nodeName(at)}`;
    await askAll(
      controlPlane,
      Array.from({ length: 400 }, (_, at) => ({ method: 'PATCH', path: path(at), body })),
    );
    const { exit, out } = await fleet(reader, '-o', 'json');
    const { nodes } = JSON.parse(out) as Info;
    expect([exit, nodes.length, nodes.filter(({ state }) => state === 'no report').length]).toEqual([1, count, 404]);
  });
});

describe('the report of a node', () => {
  let config: string;
  const workers: Worker[] = [];
  const processes = new Processes();
  beforeAll(async () => {
    for (const name of ['node-a', 'node-b']) {
      const notAfter = new Date(Date.now() + 86_400_000);
      workers.push(await Worker.create({ root, name, notAfter, controlPlane, token: '', authority: own }));
      const body = { metadata: { name } };
      expect(await controlPlane.admin('/api/v1/nodes', { method: 'POST', body })).toMatchObject({ status: 201 });
    }
    const spec = { holderIdentity: 'node-a', leaseDurationSeconds: 40, renewTime: microTime(new Date()) };
    const body = { metadata: { name: 'node-a' }, spec };
    expect(await controlPlane.admin(leases, { method: 'POST', body })).toMatchObject({ status: 201 });
    renewal = setInterval(() => void renew().catch(() => undefined), 300);
    const node = workers[0] ?? expect.fail('no worker');
    config = await node.nodeCaConfig(controlPlane);
  });
  /** The Lease of the node, as a kubelet that works renews it. */
  let renewal: NodeJS.Timeout;
  const renew = () =>
    controlPlane.admin(`${leases}/node-a`, { method: 'PATCH', body: { spec: { renewTime: microTime(new Date()) } } });
  afterAll(async () => {
    clearInterval(renewal);
    await processes[Symbol.asyncDispose]();
  });

  const run = () => program64('--mode=regen', '--once', '--restart', `--config=${config}`);
  const seen = async (name: string) => {
    const { body } = await controlPlane.admin(`/api/v1/nodes/${name}`);
    const { annotations, resourceVersion } = (
      body as {
        readonly metadata: { readonly annotations?: Record<string, string>; readonly resourceVersion: string };
      }
    ).metadata;
    return { resourceVersion, value: annotations?.[bundlesAnnotation] };
  };
  const reported = async () => {
    const { bundles } = JSON.parse((await seen('node-a')).value ?? '{}') as {
      readonly bundles: Record<string, { readonly cas: readonly string[]; readonly loaded: boolean }>;
    };
    return Object.fromEntries(Object.entries(bundles).map(([name, { cas, loaded }]) => [name, [cas.length, loaded]]));
  };

  it('says which CAs are in its files, and that no kubelet is seen that has loaded them', async () => {
    await publish(own);
    const { err } = await run();
    expect(err).toMatch(/"node":"node-a","event":"bundles.reported"/);
    expect(await reported()).toEqual({ 'kubelet-client-ca': [1, true], 'kubelet.conf': [1, false] });
  });

  it('is written again only when it would say something else', async () => {
    const before = await seen('node-a');
    await run();
    expect(await seen('node-a')).toEqual(before);
    await processes.start({ name: 'kubelet', file: workers[0]?.conf ?? '' });
    await run();
    expect(await reported()).toEqual({ 'kubelet-client-ca': [1, true], 'kubelet.conf': [1, true] });
  });

  it('says that the kubelet has not loaded a file that another program has written since', async () => {
    const { conf } = workers[0] ?? expect.fail('no worker');
    const authority = (...cas: readonly string[]): string => Buffer.from(cas.join('')).toString('base64');
    await writeFile(conf, (await readFile(conf, 'utf8')).replace(authority(own), authority(own, next)));
    await run();
    expect(await reported()).toEqual({ 'kubelet-client-ca': [1, true], 'kubelet.conf': [2, false] });
  });

  it('says that no kubelet has loaded a file for which this program has ended it', async () => {
    await publish(own, third);
    await run();
    expect(await reported()).toEqual({ 'kubelet-client-ca': [2, true], 'kubelet.conf': [3, false] });
  });

  it('takes no report from another node', async () => {
    const { port, recoveryCa: caFile } = controlPlane;
    const client = { cert: workers[1]?.link ?? '', key: workers[1]?.link ?? '' };
    const target = { port, caFile, serverName: 'localhost-recovery', client };
    const body = { metadata: { annotations: { [bundlesAnnotation]: '{"bundles":{}}' } } };
    const before = await seen('node-a');
    const patch = (name: string) => apiRequest(target, `/api/v1/nodes/${name}`, { method: 'PATCH', body });
    expect(await patch('node-a')).toMatchObject({
      status: 403,
      body: { message: expect.stringContaining('node "node-b" is not allowed to modify node "node-a"') },
    });
    expect(await seen('node-a')).toEqual(before);
    expect(await patch('node-b')).toMatchObject({ status: 200 });
  });

  it('is told once where it cannot be written, and is no fault of the run', async () => {
    await publish(own);
    const other = workers[1] ?? expect.fail('no worker');
    config = await other.nodeCaConfig(controlPlane);
    expect(await controlPlane.admin('/api/v1/nodes/node-b', { method: 'DELETE' })).toMatchObject({ status: 200 });
    const first = await run();
    await rm(join(other.root, 'lock/node-report')); // as when it is tried again, a minute later
    const second = await run();
    const told = ({ err }: Outcome) => err.split('\n').filter((line) => line.includes('bundles.failed'));
    expect([first.exit, second.exit]).toEqual([0, 0]);
    expect(told(first)).toEqual([expect.stringContaining('Cannot get Node')]);
    expect(told(second)).toEqual([]);
  });
});
