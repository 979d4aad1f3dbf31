import { describe, expect, it } from 'vitest';
import { judgeRelations, type RelationRow } from '../../lib/trust/judge-relations.ts';
import { relations } from '../../lib/trust/relations.ts';
import type { BundleOfServer, ServerMet } from '../../lib/trust/trust-facts.ts';
import { authority, day } from '../pki/authority.ts';
import { address, type Changes, cluster, machine, pair, serving, stranger } from './machine.ts';

const now = day(5);
const judged = (changes: Changes): readonly RelationRow[] => judgeRelations(relations, machine(changes), now);
const failing = (rows: readonly RelationRow[]): readonly (readonly [string, string])[] =>
  rows.flatMap(({ id, verdict, credential }) => (verdict === 'fails' ? [[id, credential.name]] : []));

const [strange, elsewhere] = await Promise.all([
  pair(stranger, 'serving'),
  pair(cluster, 'serving', { hostnames: ['192.0.2.99'] }),
]);
const [short, ended] = await Promise.all(
  [day(20), day(2)].map(async (notAfter) => (await authority({ commonName: 'hook', notAfter })).certificate.pem),
);

describe('judgeRelations() of servers that were met', () => {
  const kubelet: ServerMet = { id: 'R3', name: `kubelet of Node "a" at ${address}:10250`, hostname: address };
  const api: ServerMet = { id: 'R8', name: `kube-apiserver at ${address}:6443 as 10.96.0.1`, hostname: '10.96.0.1' };
  const root = 'ConfigMap "default/kube-root-ca.crt" ca.crt';
  const met = (kubeletShows: string, apiShows: string, more: Changes = {}): readonly RelationRow[] =>
    judged({
      ...more,
      servers: [kubelet, api],
      files: { [kubelet.name]: kubeletShows, [api.name]: apiShows, [root]: cluster.pem, ...more.files },
    });
  const rowOf = (rows: readonly RelationRow[], { name }: ServerMet): RelationRow | undefined =>
    rows.find(({ credential }) => credential.name === name);

  it('has a row for each, against the CA of its clients', () => {
    const rows = met(serving.cert, serving.cert);
    expect(failing(rows)).toEqual([]);
    expect(rowOf(rows, kubelet)).toMatchObject({
      id: 'R3',
      verdict: 'holds',
      breaksFrom: day(200),
      trust: { name: 'kube-apiserver --kubelet-certificate-authority', file: '/pki/ca.crt' },
    });
    expect(rowOf(rows, api)).toMatchObject({ id: 'R8', verdict: 'holds', breaksFrom: day(200), trust: { name: root } });
  });

  it.each([
    ['another CA', strange.cert, serving.cert, kubelet],
    ['another address', elsewhere.cert, serving.cert, kubelet],
    ['another CA', serving.cert, strange.cert, api],
    ['another address', serving.cert, elsewhere.cert, api],
  ])('names the one alone whose certificate is of %s', (_, kubeletShows, apiShows, named) => {
    expect(failing(met(kubeletShows, apiShows))).toEqual([[named.id, named.name]]);
  });

  it('knows nothing of one that does not answer', () => {
    const facts = machine({ servers: [kubelet], files: {} });
    const files = new Map([...facts.files, [kubelet.name, { unread: 'is not verified: no answer (none)' }]]);
    const rows = judgeRelations(relations, { ...facts, files }, now);
    expect(failing(rows)).toEqual([]);
    const reason = `${kubelet.name} is not verified: no answer (none)`;
    expect(rowOf(rows, kubelet)).toMatchObject({ verdict: 'unknown', reason });
  });
});

describe('judgeRelations() of caBundles', () => {
  const webhook: BundleOfServer = {
    id: 'B1',
    name: 'ValidatingWebhookConfiguration "policy" webhook "policy.example.com" caBundle',
    server: 'Service "policy/webhook"',
    hostname: 'webhook.policy.svc',
  };
  const aggregated: BundleOfServer = {
    id: 'B3',
    name: 'APIService "v1.example.com" caBundle',
    server: 'Service "metrics/server"',
    hostname: 'server.metrics.svc',
  };
  const holding = (hook: string, service = stranger.pem, more: Changes = {}): readonly RelationRow[] =>
    judged({ ...more, bundles: [webhook, aggregated], files: { [webhook.name]: hook, [aggregated.name]: service } });
  const rowOf = (rows: readonly RelationRow[], { name }: BundleOfServer): RelationRow | undefined =>
    rows.find(({ trust }) => trust.name === name);

  it('holds as long as one CA in it is valid', () => {
    const rows = holding(`${ended}${short}`);
    expect(failing(rows)).toEqual([]);
    expect(rowOf(rows, webhook)).toMatchObject({ id: 'B1', verdict: 'holds', breaksFrom: day(20) });
    expect(rowOf(rows, aggregated)).toMatchObject({ id: 'B3', verdict: 'holds', breaksFrom: day(3650) });
  });

  it('names one alone whose CAs have all expired, with what breaks', () => {
    const rows = holding(ended ?? '');
    expect(failing(rows)).toEqual([['B1', webhook.server]]);
    expect(rowOf(rows, webhook)?.reason).toMatch(/^no server can be verified: certificate ".*" expired at /);
    expect(rowOf(rows, webhook)?.breaks).toContain('failurePolicy Fail');
  });

  it('names one alone that is garbage', () => {
    const rows = holding(stranger.pem, 'garbage');
    expect(failing(rows)).toEqual([['B3', aggregated.server]]);
    expect(rowOf(rows, aggregated)?.reason).toMatch(/^Cannot read certificates of APIService "v1\.example\.com"/);
  });

  it("takes a server's own certificate for its name, and for no other", async () => {
    const own = await pair(stranger, 'serving', { hostnames: [webhook.hostname], notAfter: day(30) });
    expect(rowOf(holding(own.cert), webhook)).toMatchObject({ verdict: 'holds', breaksFrom: day(30) });
    expect(failing(holding(stranger.pem, own.cert))).toEqual([['B3', aggregated.server]]);
  });

  it('says why there is nothing to verify', () => {
    const none = 'insecureSkipTLSVerify is set';
    const rows = judged({ bundles: [{ ...aggregated, none }] });
    expect(rowOf(rows, aggregated)).toMatchObject({ verdict: 'notApplicable', reason: none });
  });

  it('counts a CA that is taken out', () => {
    const rows = holding(short ?? '', stranger.pem, { without: [stranger.certificate.facts.fingerprint] });
    expect(failing(rows)).toEqual([['B3', aggregated.server]]);
  });
});
