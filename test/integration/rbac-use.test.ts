// Every right that `init` and `init adopt` grant is used, and none is missing: the program lives its whole life under its
// own tokens, and the API server's audit log is held against the roles, verb by verb and name by name. A right that this
// life does not use is to be taken out of lib/install/rules.ts, not out of the comparison.
import { generateKeyPairSync } from 'node:crypto';
import { copyFile, mkdir } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expiredCertificateAnnotation, kubeletClientSigner } from '../../lib/bootstrap-identity.ts';
import { systemClock } from '../../lib/clock.ts';
import { staticPods } from '../../lib/components.ts';
import { accountName, defaultNamespace as namespace } from '../../lib/install/accounts.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import { MachineLease } from '../../lib/restart/machine-lease.ts';
import { apiRequest, type ApiResponse } from '../support/cluster/api-client.ts';
import { type AuditEvent, readAudit } from '../support/cluster/audit.ts';
import { createLeaf } from '../support/certificates/certificates.ts';
import { eventually } from '../support/eventually.ts';
import { expire } from '../support/cluster/expire.ts';
import { createGrantedWorld, expectedNode, type GrantedWorld, nodeName } from '../support/cluster/granted-world.ts';
import { type Grant, grantsOf, grantText } from '../support/cluster/grants.ts';
import { freePorts } from '../support/cluster/ports.ts';
import { Tool } from '../support/cluster/recovery-world.ts';
import { kubeletRequest } from '../support/certificates/requests.ts';

const userAgent = 'kube-cert-recovery/test';
const csrs = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const hour = 3_600_000;
const { signal } = new AbortController();

let world: GrantedWorld;
let grants: readonly Grant[];
let own: readonly AuditEvent[] = [];
const tools: Tool[] = [];

const admin = async (path: string, body: unknown): Promise<ApiResponse> => {
  const answer = await world.controlPlane.admin(path, { method: 'POST', body });
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  return answer;
};

async function start(config: string): Promise<Tool> {
  const [port = 0] = await freePorts(1);
  const tool = new Tool([`--config=${config}`, `--health-probe-bind-address=127.0.0.1:${port}`]);
  tools.push(tool);
  return tool;
}

const startAll = (): Promise<Tool[]> => Promise.all([...staticPods.map(world.configOf), world.plainConfig].map(start));

async function stopAll(): Promise<void> {
  for (const tool of tools.splice(0)) expect(await tool.stop()).toBe(0);
}

/** A kubelet that has no certificate asks for one. */
async function ask(name: string, node: string, annotations: Readonly<Record<string, string>> = {}): Promise<void> {
  const request = Buffer.from(await kubeletRequest(node)).toString('base64');
  const spec = { request, signerName: kubeletClientSigner, usages: ['digital signature', 'client auth'] };
  const { port, recoveryCa: caFile } = world.controlPlane;
  const target = { port, caFile, serverName: 'localhost-recovery', token: await world.tokenOf('node-bootstrapper') };
  const answer = await apiRequest(target, csrs, { method: 'POST', body: { metadata: { name, annotations }, spec } });
  expect(answer.status).toBe(201);
}

/** kube-apiserver restarts on one machine at a time: taken, made, given back, taken again. */
async function takeTurns(): Promise<void> {
  const kubeconfigFile = await world.kubeconfigOf('syncer');
  const connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent });
  const turn = new MachineLease({ connection, holder: nodeName, clock: systemClock, signal });
  await turn.acquire();
  await turn.release();
  await connection.close();
}

const leaders = ['kube-controller-manager', 'kube-scheduler'];
const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases';

async function holderOf(name: string): Promise<string | undefined> {
  const { body } = await world.controlPlane.admin(`${leases}/${name}`);
  return (body as { spec: { holderIdentity?: string } }).spec.holderIdentity;
}

/** The requests of the program itself. */
async function requests(): Promise<readonly AuditEvent[]> {
  const events = await readAudit(world.controlPlane.directory);
  return events.filter((event) => event.userAgent.startsWith('kube-cert-recovery/'));
}

const isOf = (grant: Grant, { user, namespace: where }: AuditEvent): boolean =>
  user === `system:serviceaccount:${namespace}:${grant.account}` &&
  (grant.namespace === undefined || grant.namespace === where);

/** Whether a request that was answered needed this right. */
function uses(grant: Grant, event: AuditEvent): boolean {
  const { verb, group, resource, name } = grant;
  const isApproval = event.resource === 'certificatesigningrequests/approval' && event.code === 200;
  if (resource === 'signers') return isOf(grant, event) && isApproval; // plugin/pkg/admission/certificates/approval
  if (!isOf(grant, event) || event.group !== group || event.resource !== resource) return false;
  if (name !== undefined && event.name !== name) return false;
  // An apply that creates needs both; what it says of an object that is there, needs one, and nobody does that.
  if (name !== undefined && (verb === 'patch' || verb === 'create'))
    return event.verb === 'patch' && event.code === 201;
  return event.verb === verb && (event.code < 300 || (verb === 'get' && event.code === 404));
}

/** One line for each right. */
const table = (events: readonly AuditEvent[]): string[] =>
  grants.map((grant) => `${grantText(grant)}: ${events.some((event) => uses(grant, event)) ? 'used' : 'never'}`);

const isUsed = (line: string): boolean => line.endsWith(': used');

beforeAll(async () => {
  process.env['NODE_NAME'] = nodeName;
  world = await createGrantedWorld({ audit: true });
  grants = [...new Map(grantsOf([...world.plain, ...world.adopted]).map((one) => [grantText(one), one])).values()];
  const { controlPlane } = world;

  // The keys of service accounts, which nobody makes; and leaders that were switched off with this machine.
  const { privateKey, publicKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  const stringData = { 'service-account.key': privateKey, 'service-account.pub': publicKey };
  await admin(`/api/v1/namespaces/${namespace}/secrets`, { metadata: { name: 'service-account-key' }, stringData });
  for (const name of leaders) {
    const spec = { holderIdentity: `${hostname()}_dead`, renewTime: '2026-01-01T00:00:00.000000Z' };
    await admin(leases, { metadata: { name }, spec });
  }
  const notAfter = new Date(Date.now() - hour);
  const names = { commonName: `system:node:${nodeName}`, organization: 'system:nodes' };
  const dates = { notBefore: new Date(notAfter.getTime() - hour), notAfter };
  const { cert } = await createLeaf(join(world.root, 'leaf'), controlPlane.pki.clusterCa, { ...names, ...dates });
  await mkdir(dirname(world.nodeCertificate));
  await copyFile(cert, world.nodeCertificate);
  await admin('/api/v1/nodes', { metadata: { name: 'worker' } });

  // Everything is made, then everything ends while all are switched off, then everything is renewed.
  await startAll();
  await Promise.all([
    ask('own', nodeName),
    ask('other', 'worker', { [expiredCertificateAnnotation]: 'none' }),
    ask('expected', expectedNode),
  ]);
  await eventually(
    async () => {
      const missing = [];
      for (const { name, location } of world.resolved.artefacts) {
        if ((await world.store.read(location, signal)) === undefined) missing.push(name);
      }
      expect(missing).toEqual([]);
      // Released once, at the first answer: who is stopped before that does not do it.
      for (const name of leaders) expect(await holderOf(name)).toBe('');
    },
    { everyMs: 500 },
  );
  await stopAll();
  await expire({ resolved: world.resolved, store: world.store, now: systemClock.now() });
  await startAll();
  await takeTurns();
  await takeTurns();
  // The rest of this life; what is missing then is told below, account by account.
  const untilAllUsed = async (): Promise<void> => expect(table(await requests()).every(isUsed)).toBe(true);
  await eventually(untilAllUsed, { everyMs: 500 }).catch(() => undefined);
  await stopAll();
  own = await requests();
});
afterAll(async () => {
  for (const tool of tools) await tool.stop('SIGKILL');
  await world?.[Symbol.asyncDispose]();
});

describe('the rights of the whole life', () => {
  const accounts = ['regen', 'syncer', ...staticPods.map((pod) => `syncer-${pod}` as const), 'approver'] as const;

  it.each(accounts)('of %s are all used', (account) => {
    const lines = table(own).filter((line) => line.startsWith(`${accountName(account)}: `));
    expect(lines.length).toBeGreaterThan(2);
    expect(lines).toEqual(lines.map((line) => line.replace(/never$/, 'used')));
  });

  it('are those of all accounts', () => {
    expect(new Set(grants.map((grant) => grant.account))).toEqual(new Set(accounts.map(accountName)));
  });

  it('suffice: nothing was refused', () => {
    expect(own.length).toBeGreaterThan(300);
    const refused = own.filter(({ code }) => code === 401 || code === 403);
    const told = refused.map(({ user, verb, path }) => `${user}: ${verb} ${path.replace(/&.*/, '')}`);
    expect([...new Set(told)]).toEqual([]);
  });

  it('come from our own roles, but for what asks for no object', () => {
    const elsewhere = own.filter(
      ({ resource, reason }) => resource !== '' && !/Role "kube-cert-recovery-/.test(reason),
    );
    expect(elsewhere.map(({ user, verb, path, reason }) => `${user}: ${verb} ${path}: ${reason}`)).toEqual([]);
  });
});

describe('an apply that makes an object', () => {
  it.each([
    ['create', 'cannot create resource'],
    ['patch', 'cannot patch resource'],
  ])('is refused without the right to %s', async (without, message) => {
    const kubectl = (...args: string[]): Promise<string> => world.controlPlane.kubectl(...args);
    const name = `without-${without}`;
    await kubectl('create', 'serviceaccount', name);
    const verbs = ['get', 'create', 'patch', 'update'].filter((verb) => verb !== without).join();
    await kubectl('create', 'role', name, `--verb=${verbs}`, '--resource=configmaps', '--resource-name=made');
    await kubectl('create', 'rolebinding', name, `--role=${name}`, `--serviceaccount=default:${name}`);
    const token = (await kubectl('create', 'token', name)).trim();
    const { port, recoveryCa: caFile } = world.controlPlane;
    const target = { port, caFile, serverName: 'localhost-recovery', token };
    const path = '/api/v1/namespaces/default/configmaps/made';
    await eventually(async () => expect((await apiRequest(target, path)).status).toBe(404)); // the role is known
    const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'made', resourceVersion: '1' } };
    const contentType = 'application/apply-patch+yaml';
    const answer = await apiRequest(target, `${path}?fieldManager=t`, { method: 'PATCH', contentType, body });
    expect(answer).toMatchObject({ status: 403 });
    expect(JSON.stringify(answer.body)).toContain(message);
  });
});
