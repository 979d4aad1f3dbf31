// A new CA that signs once the nodes have it: the program with the rights of `init`, on a real API server, whose Nodes say
// what they hold. One signer is a minute old, another one two days; a leaf of each is due, by the former CA of each.
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { type Manifest, type Api, applyManifest } from '../../lib/install/apply.ts';
import { readToken } from '../../lib/install/mode-credentials.ts';
import { installManifests } from '../../lib/install/rbac.ts';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { shortPrint } from '../../lib/kube/reported-bundles.ts';
import { wholeCertificates } from '../../lib/pki/certificate.ts';
import { toYaml } from '../../lib/yaml.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';
import { readAudit } from '../support/cluster/audit.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { askAll, bundlesAnnotation, createFleet, reportOf } from '../support/cluster/fleet.ts';
import { Actor } from './regen-world.ts';

const program = fileURLToPath(new URL('../../dist/app/main.mjs', import.meta.url));
const namespace = 'kube-cert-recovery';
const day = 86_400_000;
const chains = ['young', 'old'] as const;

const secret = (name: string) => ({ kind: 'secret', namespace, name }) as const;
const rowsOf = (name: string): readonly ResolvedArtefact[] => [
  { kind: 'signer', name, location: secret(name), readers: [], validity: 60 * day, refresh: 30 * day },
  {
    kind: 'caBundle',
    name: `${name}-ca`,
    location: { kind: 'configMap', namespace, name: `${name}-ca` },
    readers: [],
    signers: [name],
  },
  {
    kind: 'target',
    name: `${name}-leaf`,
    location: secret(`${name}-leaf`),
    readers: [],
    issuer: name,
    usage: 'client',
    commonName: 'kubelet-client',
    organizations: [],
    hostnames: [],
    validity: 30 * day,
    refresh: 15 * day,
  },
];
const resolved: Resolved = { name: 'chains', artefacts: chains.flatMap(rowsOf) };

/** The same in a configuration file. */
const inventory = {
  name: 'chains',
  namespace,
  policy: { kind: 'BeforeExpiry' },
  artefacts: chains.flatMap((name) => [
    { kind: 'signer', name, location: { secret: name }, validity: '60d', refresh: '30d' },
    { kind: 'caBundle', name: `${name}-ca`, location: { configMap: `${name}-ca` }, signers: [name] },
    {
      kind: 'target',
      name: `${name}-leaf`,
      location: { secret: `${name}-leaf` },
      issuer: name,
      usage: 'client',
      commonName: 'kubelet-client',
      validity: '30d',
      refresh: '15d',
    },
  ]),
};
const waitForNodes = { young: ['kubelet-client-ca'], old: ['kubelet-client-ca'] };

let root: string;
let controlPlane: ControlPlane;
let actor: Actor;
let api: Api;
let config: string;
const { signal } = new AbortController();

interface Line {
  readonly artefact?: string;
  readonly event: string;
  readonly reason?: string;
  readonly message?: string;
}

/** What is decided of the two leaves, and why. */
async function decided(...flags: readonly string[]): Promise<Readonly<Record<string, string>>> {
  const argv = [program, '--mode=regen', '--once', `--config=${config}`, ...flags];
  const lines = await new Promise<string>((resolve) => {
    execFile(process.execPath, argv, (_err, _out, stderr) => resolve(stderr));
  });
  const all = lines.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as Line] : []));
  return Object.fromEntries(
    all.flatMap(({ artefact = '', event, reason = '', message = '' }) =>
      artefact.endsWith('-leaf') && (event === 'rotation.decided' || event === 'rotation.due')
        ? [[artefact.replace('-leaf', ''), `${event === 'rotation.due' ? 'keep' : 'renew'} ${reason}: ${message}`]]
        : [],
    ),
  );
}

const both = (text: string) => ({ young: expect.stringContaining(text), old: expect.stringContaining(text) });
const lists = async (): Promise<readonly string[]> =>
  (await readAudit(controlPlane.directory))
    .filter(({ verb, user }) => verb === 'list' && user.includes('regen'))
    .map(({ resource, code }) => `${resource} ${code}`)
    .toSorted();

async function grant(policy: { readonly waitForNodes?: ReadonlyMap<string, readonly string[]> }): Promise<void> {
  const manifests: readonly Manifest[] = installManifests({ ...resolved, namespace, syncers: [], policy });
  for (const manifest of manifests) await applyManifest(api, manifest);
}

/** Makes the node say that its file holds the present CAs of these signers. */
async function holds(node: string, ...signers: readonly string[]): Promise<void> {
  const prints = await Promise.all(
    signers.map(async (name) => {
      const found = await actor.store.read(secret(name), signal);
      const [ca] = wholeCertificates(Buffer.from(found?.entries['tls.crt'] ?? ''));
      return shortPrint(ca?.facts.fingerprint ?? expect.fail('no CA'));
    }),
  );
  const body = { metadata: { annotations: { [bundlesAnnotation]: reportOf(prints) } } };
  await askAll(controlPlane, [{ method: 'PATCH', path: `/api/v1/nodes/${node}`, body }]);
}

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'wait-for-nodes-'));
  controlPlane = await startControlPlane({
    components: ['etcd', 'kube-apiserver', 'kube-controller-manager'],
    audit: true,
  });
  await controlPlane.kubectl('create', 'namespace', namespace);
  actor = await Actor.start(controlPlane, resolved);
  api = { connection: actor.connection, signal };
  const shifted = (ms: number) => ({ ...systemClock, now: () => new Date(systemClock.now().getTime() + ms) });
  // The leaves are twenty days old, and each signer was then replaced by another one.
  await actor.run({ clock: shifted(-20 * day) });
  for (const [name, ageMs] of [
    ['old', 2 * day],
    ['young', 0],
  ] as const) {
    const path = `/api/v1/namespaces/${namespace}/secrets/${name}`;
    expect(await controlPlane.admin(path, { method: 'DELETE' })).toMatchObject({ status: 200 });
    await actor.run({ clock: shifted(-ageMs) });
  }
  await grant({});
  const { token } = await readToken('regen', { api, namespace, clock: systemClock });
  const kubeconfig = await writeKubeconfig(join(root, 'regen.conf'), {
    server: controlPlane.url,
    certificateAuthority: controlPlane.recoveryCa,
    tlsServerName: 'localhost-recovery',
    token,
  });
  config = join(root, 'config.yaml');
  const regen = {
    waitForNodes,
    backupDir: join(root, 'backups'),
    lockDir: join(root, 'lock'),
    clockSynchronised: true,
  };
  const head = { apiVersion: 'kube-cert-recovery/v1alpha1', kind: 'Configuration' };
  await writeFile(config, toYaml({ ...head, inventory, kubeconfig, regen }));
});
afterAll(async () => {
  await actor?.[Symbol.asyncDispose]();
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

it('waits for the age of the CA alone, where the right to list Nodes is missing, or no Node says anything', async () => {
  const told = (why: string) => ({
    young: expect.stringMatching(new RegExp(`^keep SignerTooYoung: .*; ${why}$`)),
    old: expect.stringMatching(new RegExp(`^renew RefreshDue: .*; ${why}, and old is old enough$`)),
  });
  expect(await decided('--dry-run')).toEqual(told('the right to list Nodes and their Leases is missing'));
  await grant({ waitForNodes: new Map(Object.entries(waitForNodes)) });
  expect(await decided('--dry-run')).toEqual(told('no Node says which CAs it holds'));
  const now = new Date();
  await createFleet(
    controlPlane,
    ['node-a', 'node-b'].map((name) => ({ name, report: undefined, renewedAt: now })),
  );
  expect(await decided('--dry-run')).toEqual(told('no Node says which CAs it holds'));
});

it('waits for a node that lacks the CA, and names it, in two requests of a pass', async () => {
  await holds('node-a', 'young', 'old');
  await holds('node-b');
  const before = await lists();
  const said = await decided();
  expect(said).toEqual(both('1 of 2 nodes lack the CA of '));
  expect(said).toEqual(both(': node-b; signed all the same from '));
  expect((await lists()).length - before.length).toBe(2);
});

it('goes on without a node that was accepted, and with no other', async () => {
  expect(await decided('--dry-run', '--accept-lagging=node-a')).toEqual(both('keep NodesLag'));
  expect(await decided('--dry-run', '--accept-lagging=node-b')).toEqual(both('were accepted: node-b'));
});

it('signs at once when every node has the CA, and asks no more', async () => {
  await holds('node-b', 'young', 'old');
  const said = await decided();
  expect(said).toEqual(both('every node has the CA of '));
  expect(said).toEqual(both('renew RefreshDue'));
  const before = await lists();
  expect(await decided()).toEqual({});
  expect(await lists()).toEqual(before);
});
