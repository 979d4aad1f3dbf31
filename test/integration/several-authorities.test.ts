// The Secret of a signer that holds other CAs as well, in a real API server: the CA that signs is the one whose key is there, and
// the others stay.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { systemClock as clock } from '../../lib/clock.ts';
import type { Resolved } from '../../lib/inventory/model.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import { parseCertificates } from '../../lib/pki/certificate.ts';
import { isSignedByKey } from '../../lib/pki/verify.ts';
import type { RegenReport } from '../../lib/regen/journal.ts';
import { runRegen } from '../../lib/regen/run.ts';
import { createApiStore } from '../../lib/store/api-store.ts';
import type { Store } from '../../lib/store/store.ts';
import { fastKeys } from '../regen/disk-world.ts';
import { createAuthority } from '../support/certificates/certificates.ts';
import { dated } from '../support/certificates/dated.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';

const namespace = 'signers';
const day = 86_400_000;
const lives = { readers: [], validity: 60 * day, refresh: 30 * day } as const;
const secret = (name: string) => ({ kind: 'secret', namespace, name }) as const;
const configMap = (name: string) => ({ kind: 'configMap', namespace, name }) as const;
const resolved: Resolved = {
  name: 'test',
  artefacts: [
    { ...lives, kind: 'signer', name: 'signer', location: secret('signer') },
    { kind: 'caBundle', name: 'bundle', readers: [], signers: ['signer'], location: configMap('bundle') },
    {
      ...lives,
      kind: 'target',
      name: 'leaf',
      location: secret('leaf'),
      issuer: 'signer',
      usage: 'client',
      commonName: 'me',
      organizations: [],
      hostnames: [],
      validity: 20 * day,
      refresh: 10 * day,
    },
    { kind: 'copy', name: 'copy', readers: [], of: 'signer', location: secret('copy') },
  ],
};

let controlPlane: ControlPlane;
let connection: KubeConnection;
let store: Store;
let scratch: string;
/** PEM of other CAs. */
let next: string;
let former: string;
const { signal } = new AbortController();

beforeAll(async () => {
  controlPlane = await startControlPlane();
  await controlPlane.kubectl('create', 'namespace', namespace);
  connection = await openConnection({ kubeconfigFile: controlPlane.recoveryKubeconfig, clock, userAgent: 'test' });
  store = createApiStore({ connection, fieldManager: 'kube-cert-recovery' });
  scratch = await mkdtemp(join(tmpdir(), 'signers-'));
  next = await readFile((await createAuthority(join(scratch, 'next'), { commonName: 'next' })).cert, 'utf8');
  former = await readFile((await createAuthority(join(scratch, 'former'), { commonName: 'former' })).cert, 'utf8');
  expect((await repair()).converged).toBe(true);
});
afterAll(async () => {
  await connection?.close();
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(scratch, { recursive: true, force: true });
});

function repair(): Promise<RegenReport> {
  return runRegen({
    resolved,
    store,
    policy: { kind: 'OnlyWhenExpired', graceMs: 0, settleMs: 0 },
    clockFacts: () => ({ builtAt: new Date('2025-01-01T00:00:00Z'), synchronised: true }),
    clock,
    log: createLog({ level: 'error', write: () => undefined }),
    keyPool: fastKeys(),
    once: true,
    dryRun: false,
    signal: AbortSignal.timeout(60_000),
  });
}

async function entry(name: string, key = 'tls.crt'): Promise<string> {
  const location = key === 'ca-bundle.crt' ? configMap(name) : secret(name);
  return Buffer.from((await store.read(location, signal))?.entries[key] ?? '').toString();
}

const patch = (name: string, pem: string): Promise<unknown> =>
  controlPlane.kubectl(
    '-n',
    namespace,
    'patch',
    'secret',
    name,
    '--type=merge',
    '-p',
    JSON.stringify({ data: { 'tls.crt': Buffer.from(pem).toString('base64') } }),
  );

const parsed = (pem: string) => parseCertificates(Buffer.from(pem), 'test', 'skipped');

describe.each<readonly [string, (own: string) => string]>([
  ['the next CA first', (own) => next + own],
  ['the next CA behind it', (own) => own + next],
  ['a former one first and the next behind', (own) => `# former\n${former}${own}${next}`],
  ['two before it', (own) => former + next + own],
])('%s', (_name, arrange) => {
  it('stays as it is, and its key signs', async () => {
    const own = await entry('signer');
    const content = arrange(own);
    await patch('signer', content);
    expect(await repair()).toMatchObject({ converged: true, writes: 0 });
    await controlPlane.kubectl('-n', namespace, 'delete', 'secret', 'leaf', 'copy');
    expect(await repair()).toMatchObject({ converged: true, writes: 2 });
    expect(await entry('signer')).toBe(content);
    const [leaf] = parsed(await entry('leaf'));
    const [authority] = parsed(own);
    expect(leaf && authority && isSignedByKey(leaf, authority)).toBe(true);
    expect(await entry('copy')).toBe(own);
    await patch('signer', own);
  });
});

test('what is trusted beside a CA stays when a new one comes in its place', async () => {
  const own = await entry('signer');
  const key = await entry('signer', 'tls.key');
  const [from, until] = [-60, -1].map((days) => new Date(Math.floor(Date.now() / 1000) * 1000 + days * day));
  const old = dated(own, key, from as Date, until as Date);
  await patch('signer', `# the next\n${next}# own\n${old}${former}`);
  expect((await repair()).converged).toBe(true);
  const content = await entry('signer');
  expect(content.startsWith(`# the next\n${next}# own\n`) && content.endsWith(former)).toBe(true);
  const [, made] = parsed(content);
  expect(parsed(content)).toHaveLength(3);
  await controlPlane.kubectl('-n', namespace, 'delete', 'secret', 'leaf');
  expect((await repair()).converged).toBe(true);
  const [leaf] = parsed(await entry('leaf'));
  expect(made && leaf && isSignedByKey(leaf, made)).toBe(true);
  expect(await entry('bundle', 'ca-bundle.crt')).toContain(made?.pem);
  expect(await repair()).toMatchObject({ converged: true, writes: 0 });
});
