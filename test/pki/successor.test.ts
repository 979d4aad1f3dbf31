// One rule for the successor of a CA: all who take one over take the same ones. What is offered is openssl's.
import { createPrivateKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ResolvedArtefact } from '../../lib/inventory/model.ts';
import type { Certificate } from '../../lib/pki/certificate.ts';
import { isSuccessor, succeededBy } from '../../lib/pki/successor.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import { withSuccessors } from '../../lib/plan/successors.ts';
import { withRenewedAuthority } from '../../lib/run/publish-authority.ts';
import type { Found } from '../../lib/store/store.ts';
import { followedBy, judgeOffer } from '../../lib/plan/judge-authority.ts';
import { dated } from '../support/certificates/dated.ts';
import { one } from './authority.ts';
import { opensslDir, type OpensslDir } from './openssl.ts';

let dir: OpensslDir;
beforeAll(async () => {
  dir = await opensslDir();
  await dir.openssl('genrsa', '-out', dir.path('own.key'), '2048');
  await dir.openssl('genrsa', '-out', dir.path('other.key'), '2048');
});
afterAll(() => dir[Symbol.asyncDispose]());

const now = new Date();
const day = (count: number): Date => new Date(now.getTime() + count * 86_400_000);

interface Asked {
  readonly key?: 'own' | 'other';
  readonly subject?: string;
  readonly hash?: string;
  readonly constraint?: string;
  readonly days?: number;
}

/** From this moment on. */
async function ca(asked: Asked = {}): Promise<Certificate> {
  const { key = 'own', subject = '/CN=kubernetes', hash = '-sha256', constraint = 'CA:TRUE', days = 3650 } = asked;
  const extensions = `basicConstraints=critical,${constraint}\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash`;
  const config = await dir.file('cnf', `[req]\ndistinguished_name=dn\n[dn]\n[ext]\n${extensions}\n`);
  const what = ['-x509', '-key', dir.path(`${key}.key`), '-subj', subject, hash, '-days', String(days)];
  await dir.openssl('req', ...what, '-config', config, '-extensions', 'ext', '-out', dir.path('made.crt'));
  return one(await readFile(dir.path('made.crt'), 'utf8'));
}

/** The CA that everybody has: it ends in a month, or so many days. */
async function held(days = 30): Promise<Certificate> {
  const key = createPrivateKey(await readFile(dir.path('own.key'))).export({ type: 'pkcs8', format: 'pem' });
  return one(dated((await ca()).pem, String(key), day(days - 3650), day(days)));
}

const signer: ResolvedArtefact = {
  kind: 'signer',
  name: 'ca',
  readers: [],
  validity: 2,
  refresh: 1,
  location: { kind: 'pemPair', certFile: '/ca.crt', keyFile: '/ca.key' },
};

const material = (entry: string, { pem }: Certificate): Found => ({
  version: '1',
  annotations: {},
  entries: { [entry]: Buffer.from(pem) },
});

/** Whether each of those that follow a CA would take this one in the place of that. */
const callers: Readonly<Record<string, (offered: Certificate, trusted: Certificate) => boolean | Promise<boolean>>> = {
  'the rule itself': isSuccessor,
  'a control plane that finds it in another file': async (offered, trusted) => {
    const fact: ArtefactFacts = { state: 'present', version: '1', digest: '', certificates: [trusted.facts] };
    const found = new Map([
      ['ca', material('tls.crt', trusted)],
      ['conf', material('ca.crt', offered)],
    ]);
    const sources = { resolved: { name: 'host', artefacts: [signer] }, found, now: day(1) };
    const facts = new Map([['ca', fact]]);
    const { newer } = await withSuccessors(facts, sources, (_name, err) => expect.fail(String(err)));
    return newer.has('ca');
  },
  'the file of an approver': (offered, trusted) => succeededBy([trusted], offered) !== undefined,
  'what is published for those who join': (offered, trusted) => {
    const authority = Buffer.from(trusted.pem).toString('base64');
    const cluster = `{server: "https://a:6443", certificate-authority-data: ${authority}}`;
    const kubeconfig = `clusters:\n- cluster: ${cluster}\n  name: ""\n`;
    return withRenewedAuthority({ data: { kubeconfig } }, offered) !== undefined;
  },
  'a worker to which it is offered': (offered, trusted) =>
    judgeOffer(Buffer.from(offered.pem), [trusted], day(1)).state === 'successor',
  'a worker that holds it elsewhere': (offered, trusted) => followedBy([trusted], [offered], day(1)) !== undefined,
};

test.each([
  ['is not looked for while no node is due', undefined, false],
  ['is looked for from a threshold of its own', true, true],
] as const)('a successor, with most of its life left, %s', async (_name, renewAhead, isFound) => {
  const [offered, trusted] = [await ca(), await held(3000)];
  const fact: ArtefactFacts = { state: 'present', version: '1', digest: '', certificates: [trusted.facts] };
  const found = new Map([
    ['ca', material('tls.crt', trusted)],
    ['conf', material('ca.crt', offered)],
  ]);
  const validity = 3650 * 86_400_000;
  const ahead = { ...signer, validity, refresh: validity / 10, ...(renewAhead && { renewAhead }) };
  const sources = { resolved: { name: 'host', artefacts: [ahead] }, found, now: day(1) };
  const { newer } = await withSuccessors(new Map([['ca', fact]]), sources, (_ca, err) => expect.fail(String(err)));
  expect(newer.has('ca')).toBe(isFound);
});

const rows: readonly (readonly [string, Asked, boolean])[] = [
  ['the same with a later end', {}, true],
  ['signed with SHA-384', { hash: '-sha384' }, true],
  ['signed with SHA-1', { hash: '-sha1' }, false],
  ['signed with MD5', { hash: '-md5' }, false],
  ['another key', { key: 'other' }, false],
  ['another subject', { subject: '/CN=kubernetes-ca' }, false],
  ['an earlier end', { days: 20 }, false],
  ['a limit that the former has not', { constraint: 'CA:TRUE,pathlen:0' }, false],
  ['no CA', { constraint: 'CA:FALSE' }, false],
];

test.each(rows)('a successor, %s: all take it, or none', async (_name, asked, isTaken) => {
  const [offered, trusted] = [await ca(asked), await held()];
  const answers = Object.entries(callers).map(async ([name, takes]) => [name, await takes(offered, trusted)]);
  const taken = await Promise.all(answers);
  expect(Object.fromEntries(taken)).toEqual(Object.fromEntries(Object.keys(callers).map((name) => [name, isTaken])));
});
