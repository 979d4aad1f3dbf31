// What `explain` tells of one entry.
import { expect, it } from 'vitest';
import type { Artefact } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { explain } from '../../lib/status/explain.ts';
import type { RelationRow } from '../../lib/trust/judge-relations.ts';
import { day, present } from '../support/facts.ts';
import { leaf, machine, tell, type Told, withoutKey } from './node.ts';

const pki = '/etc/kubernetes/pki';
const relation = (
  id: RelationRow['id'],
  credential: string,
  trust: string,
  more: Partial<RelationRow> = {},
): RelationRow => ({
  id,
  credential: { name: credential, file: `${pki}/${credential}` },
  trust: { name: trust, file: `${pki}/${trust}` },
  verdict: 'holds',
  reason: '',
  breaks: `${id} breaks`,
  seen: `${id} is seen`,
  ...more,
});
const relations = [
  relation('R8', 'apiserver.crt', 'ca.crt'),
  relation('R8', 'apiserver.crt', 'ca.crt'),
  relation('R2', 'front-proxy-client.crt', 'front-proxy-ca.crt'),
  relation('R3', 'apiserver.crt', 'ca.crt', { verdict: 'notApplicable' }),
];

function told(name: string, changes: Parameters<typeof tell>[0] = {}, more: Told = {}): readonly string[] {
  const resolved = {
    ...machine(),
    flagsByFile: { [`${pki}/apiserver.crt`]: ['kube-apiserver --tls-cert-file', 'etcd --x'] },
  };
  const status = tell(changes, { ...more, resolved, explained: name });
  const artefact = resolved.artefacts.find((one) => one.name === name);
  if (artefact === undefined) return expect.unreachable(name);
  return explain(artefact, resolved.artefacts, { sight: { status, relations }, isOwner: false })
    .trimEnd()
    .split('\n')
    .map((line) => line.replace(/ {2,}/g, ' | '));
}

it('tells of a certificate who signs it, who reads it, what breaks without it, and what happens next', () => {
  expect(told('apiserver')).toEqual([
    `apiserver | serving certificate with its key, pair "${pki}/apiserver.crt"`,
    'STATE | OK, expires Mar 28, 2027 00:00 UTC (300d)',
    'SIGNED BY | ca (OK, expires May 29, 2036 00:00 UTC (10y)); its key is here',
    'READ BY | kube-apiserver --tls-cert-file: a change is noticed',
    ' | etcd --x',
    'WITHOUT IT | R8 breaks; R8 is seen (R8)',
    'NEXT | reissued when it expires: Mar 28, 2027 00:00 UTC',
  ]);
});

it('tells of a CA what it signs, and that its readers read it at their start', () => {
  const lines = told('front-proxy-ca');
  expect(lines).toContain('SIGNED BY | itself');
  expect(lines).toContain('SIGNS | front-proxy-client');
  expect(lines).toContain('WITHOUT IT | R2 breaks; R2 is seen (R2)');
  expect(told('etcd-ca')).toContain('READ BY | etcd: read at its start only');
});

it.each<readonly [string, string, Parameters<typeof tell>[0], Told, string]>([
  ['expired', 'apiserver', { apiserver: present(leaf('apiserver', 'ca', -1)) }, {}, 'NEXT | reissued'],
  [
    'not armed',
    'apiserver',
    {},
    { isArmed: false },
    'NEXT | reissued, if armed, when it expires: Mar 28, 2027 00:00 UTC (not armed)',
  ],
  [
    'renewed ahead of time',
    'apiserver',
    {},
    { ahead: { beforeMs: 30 * day, signerBeforeMs: 365 * day, jitter: 0, warnOnly: false } },
    'NEXT | reissued Feb 26, 2027 00:00 UTC',
  ],
  [
    'without the key of its CA',
    'apiserver',
    { ca: withoutKey('ca') },
    {},
    'NEXT | nothing: bring a new one by hand before: Mar 28, 2027 00:00 UTC',
  ],
])('tells what happens next to one that is %s', (_, name, changes, more, line) => {
  expect(told(name, changes, more)).toContain(line);
});

it('tells of an entry in the API what its inventory says', () => {
  const { artefacts } = loadPreset('kubernetes');
  const artefact = artefacts.find(({ name }) => name === 'kube-scheduler-client') as Artefact;
  const text = explain(artefact, artefacts, { isOwner: true });
  expect(text).toMatch(/^SIGNED BY +\S+$/m);
  expect(text).toMatch(/^NEXT +valid for \d+d, renewed after \d+d$/m);
  // Beside an owner, such as OpenShift's operators.
  const beside = explain(artefact, artefacts, { isOwner: false });
  expect(beside).toMatch(/^NEXT +valid for \d+d; its owner renews it after \d+d, this program once it has expired$/m);
});

it('tells of a copy what it is a copy of, and when it follows', () => {
  const { artefacts } = loadPreset('openshift-kube-controller-manager');
  const saidOf = (name: string): string =>
    explain(artefacts.find((one) => one.name === name) as Artefact, artefacts, { isOwner: false });
  expect(saidOf('csr-signer')).toMatch(/^csr-signer +copy of next-csr-signer, Secret /);
  expect(saidOf('csr-signer')).toMatch(/^NEXT +follows it 5m after that was renewed/m);
  expect(saidOf('serviceaccount-ca')).toMatch(/ bundle of kube-apiserver-server-ca, default-ingress-cert, ConfigMap /);
});
