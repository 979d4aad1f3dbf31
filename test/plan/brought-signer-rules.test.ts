// A CA that others brought is never replaced before its end: not for a refresh, not for a lost key, not for a lost Secret.
import { expect, test } from 'vitest';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import type { CertificateFacts } from '../../lib/pki/certificate.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import { type Plan, plan } from '../../lib/plan/plan.ts';
import {
  at,
  beforeExpiry,
  bundle,
  ca,
  chain,
  goodClock,
  healthy,
  leaf,
  onlyWhenExpired,
  present,
  signer,
  start,
  target,
} from '../support/facts.ts';

const theirs = ca('ca', [-1, 3649], { commonName: 'kubernetes', subject: 'CN=kubernetes', issuer: 'CN=kubernetes' });
const ours = ca('ca', [-1, 3649]);
const ending = { ...theirs, notBefore: at(-31), notAfter: at(29) };
const ofTheirs = { issuer: 'CN=kubernetes' };
const absent: ArtefactFacts = { state: 'absent' };
const broken = (
  problem: 'unreadable' | 'mismatchedPair' | 'keyAbsent',
  ...certificates: CertificateFacts[]
): ArtefactFacts => ({ state: 'broken', problem, version: '1', message: 'bad', certificates });

interface Row {
  readonly name: string;
  readonly policy?: RenewalPolicy;
  readonly change: Record<string, ArtefactFacts>;
  readonly now?: Date;
  readonly resolved?: Resolved;
  readonly want: string;
  /** In the message of the signer. */
  readonly says?: readonly string[];
}

const trusted = (...certificates: CertificateFacts[]): Row['change'] => ({
  bundle: present(...certificates),
  composed: present(...certificates),
  copy: present(...certificates),
  target: present(leaf('leaf', [-1, 29], 'ca', ofTheirs)),
});
const adopted: Resolved = {
  ...chain,
  artefacts: chain.artefacts.map((one) => (one === signer ? { ...signer, adoptedFrom: 'ca' } : one)),
};
const intermediate: Resolved = {
  name: 'intermediate',
  artefacts: [
    { ...signer, name: 'root', location: { kind: 'secret', namespace: 'n', name: 'root' } },
    {
      ...bundle,
      name: 'root-bundle',
      location: { kind: 'configMap', namespace: 'n', name: 'root' },
      signers: ['root'],
    },
    { ...signer, issuer: 'root' },
    bundle,
    target,
  ],
};
const root = present(ca('root', [-1, 3649]));
/** Another signer of ours beside it, of which some tool has put objects into the place of its own. */
const beside: Resolved = {
  name: 'beside',
  artefacts: [...intermediate.artefacts.slice(0, 2), signer, bundle, target],
};
const another = ca('root', [-60, -1], { commonName: 'n_root@1780272000', subject: 'CN=n_root@1780272000' });
const leafOfAnother = present(leaf('leaf', [-31, -1], 'root', { issuer: another.subject }));
const swapped = { root: present(another), 'root-bundle': present(another), target: leafOfAnother };
const sibling = {
  ...signer,
  name: 'sibling',
  adoptedFrom: 'ca',
  location: { kind: 'secret', namespace: 'n', name: 'sibling' },
} as const;
const siblings: Resolved = { ...adopted, artefacts: [sibling, ...adopted.artefacts] };

const rows: Row[] = [
  ...([absent, broken('keyAbsent', theirs), broken('unreadable'), present(ca('other', [-60, -1]))] as const).map(
    (lost, index): Row => ({
      name: `a sibling has it with its key (${index})`,
      change: { ...trusted(theirs), signer: lost, sibling: present(theirs) },
      resolved: siblings,
      want: `renew ${['Absent', 'Unreadable', 'Unreadable', 'Expired'][index]}`,
      says: ['put back', 'as sibling has it'],
    }),
  ),
  {
    name: 'a sibling has it without its key',
    change: { ...trusted(theirs), signer: absent, sibling: broken('keyAbsent', theirs) },
    resolved: siblings,
    want: 'blocked NotOurs',
  },
  {
    name: 'a sibling has another one',
    change: { ...trusted(theirs), signer: absent, sibling: present(ca('another', [-1, 3649])) },
    resolved: siblings,
    want: 'blocked NotOurs',
  },
  {
    name: 'an intermediate CA that its root does not vouch for any more, and a sibling that is the same',
    resolved: { ...intermediate, artefacts: [sibling, ...intermediate.artefacts] },
    change: {
      ...trusted(theirs),
      signer: present({ ...theirs, signedBy: ['gone'] }),
      sibling: present({ ...theirs, signedBy: ['gone'] }),
      root,
      'root-bundle': root,
    },
    want: 'blocked NotOurs',
  },
  {
    name: 'its Secret is deleted: the bundle still holds it',
    change: { ...trusted(theirs), signer: absent },
    want: 'blocked NotOurs',
    says: ['"CN=kubernetes"', at(3649).toISOString(), 'Secret "n/signer"', 'put back', '/etc/kubernetes/pki/ca.key'],
    resolved: adopted,
  },
  {
    name: 'its Secret is deleted, and all leaves have expired meanwhile',
    change: { ...trusted(theirs), signer: absent, target: present(leaf('leaf', [-30, -1], 'ca', ofTheirs)) },
    want: 'blocked NotOurs',
  },
  {
    name: 'its Secret is deleted, and the leaves with it',
    change: { ...trusted(theirs), signer: absent, target: absent },
    want: 'blocked NotOurs',
  },
  {
    name: 'its Secret and every bundle are deleted: its leaf says its name',
    change: {
      signer: absent,
      bundle: absent,
      composed: absent,
      copy: absent,
      target: present(leaf('leaf', [-1, 29], '', { ...ofTheirs, signedBy: [] })),
    },
    want: 'blocked NotOurs',
    says: ['"CN=kubernetes"'],
  },
  {
    name: 'the same, and that leaf has expired: nothing else could renew it',
    change: {
      signer: absent,
      bundle: absent,
      composed: absent,
      copy: absent,
      target: present(leaf('leaf', [-30, -1], '', { ...ofTheirs, signedBy: [] })),
    },
    want: 'blocked NotOurs',
    says: ['"CN=kubernetes"'],
  },
  {
    name: 'its Secret and its leaf are deleted, and the bundle that may hold it cannot be read',
    change: {
      ...trusted(theirs),
      signer: absent,
      target: absent,
      bundle: { state: 'unavailable', message: 'no answer' },
      composed: absent,
      copy: absent,
    },
    want: 'blocked Unavailable',
    says: ['whether it was brought here nobody can tell'],
  },
  {
    name: 'its key is emptied',
    change: { ...trusted(theirs), signer: broken('keyAbsent', theirs) },
    want: 'blocked NotOurs',
    says: ['"CN=kubernetes"'],
  },
  {
    name: 'its key is another one',
    change: { ...trusted(theirs), signer: broken('mismatchedPair', theirs) },
    want: 'blocked NotOurs',
  },
  {
    name: 'its Secret holds the pair of a stranger, half of it',
    change: { ...trusted(theirs), signer: broken('mismatchedPair', ca('stranger', [-1, 59])) },
    want: 'blocked NotOurs',
    says: ['"CN=kubernetes"'],
  },
  {
    name: 'its Secret holds a CA that is another one, and has expired',
    change: { ...trusted(theirs), signer: present(ca('other', [-60, -1])) },
    want: 'blocked NotOurs',
    says: ['it expired at', '"CN=kubernetes"'],
  },
  {
    name: 'nothing of its Secret can be read',
    change: { ...trusted(theirs), signer: broken('unreadable') },
    want: 'blocked NotOurs',
  },
  {
    name: 'an owner does not replace it either',
    policy: beforeExpiry,
    change: { ...trusted(theirs), signer: absent },
    want: 'blocked NotOurs',
  },
  {
    name: 'due for refresh',
    policy: beforeExpiry,
    change: { ...trusted(ending), signer: present(ending) },
    now: at(10),
    want: 'keep NotOurs',
  },
  {
    name: 'lost, and at its end: nobody knows it any more',
    change: { ...trusted(theirs), signer: absent },
    now: at(3650),
    want: 'renew Absent',
  },
  { name: 'expired, as it is: replaced', change: { signer: present(theirs) }, now: at(3650), want: 'renew Expired' },
  {
    name: 'an intermediate CA of others that its root does not vouch for any more',
    resolved: intermediate,
    change: { ...trusted(theirs), signer: present({ ...theirs, signedBy: ['gone'] }), root, 'root-bundle': root },
    want: 'blocked NotOurs',
  },
  {
    name: 'signed by a CA of others, whatever its name',
    change: { ...trusted({ ...ours, issuer: 'CN=corporate' }), signer: absent },
    want: 'blocked NotOurs',
  },
  {
    name: 'nothing of its Secret can be read, and its leaf was overwritten with that of another signer',
    resolved: beside,
    change: { ...trusted(theirs), ...swapped, signer: broken('unreadable') },
    want: 'blocked NotOurs',
    says: ['"CN=kubernetes"'],
  },
  {
    name: 'its Secret and its leaf were overwritten with those of another signer, which has expired',
    resolved: beside,
    change: { ...trusted(theirs), ...swapped, signer: present(another) },
    want: 'blocked NotOurs',
    says: ['"CN=kubernetes"'],
  },
  {
    name: 'its Secret is deleted, and a CA in files is called as it is',
    resolved: {
      name: 'mixed',
      artefacts: [
        {
          ...signer,
          name: 'kubernetes',
          owned: false,
          location: { kind: 'pemPair', directory: '/p', certificate: 'a.crt', key: 'a.key' },
        } as unknown as ResolvedArtefact,
        ...chain.artefacts,
      ],
    },
    change: { ...trusted({ ...theirs, commonName: 'kubernetes' }), signer: absent, kubernetes: absent },
    want: 'blocked NotOurs',
    says: ['"CN=kubernetes"'],
  },
  {
    name: 'the same where the other signer is gone: its name is known by the leaf',
    resolved: beside,
    change: { ...trusted(theirs), ...swapped, root: absent, 'root-bundle': absent, signer: absent },
    want: 'blocked NotOurs',
    says: ['"CN=kubernetes"'],
  },
  {
    name: 'ours is made again, as soon as it is lost',
    change: { ...trusted(ours), signer: absent },
    want: 'renew Absent',
  },
  {
    name: 'ours with another key is made again',
    change: { ...trusted(ours), signer: broken('mismatchedPair', ours) },
    want: 'renew MismatchedPair',
  },
  {
    name: 'ours, with one of others before it in the bundle',
    change: {
      ...trusted(ca('former', [-300, 3000], { commonName: 'kubernetes' }), {
        ...ours,
        commonName: 'n_signer@1780272000',
      }),
      target: absent,
      signer: absent,
    },
    want: 'renew Absent',
  },
  {
    name: 'ours, by its youngest leaf',
    change: {
      ...trusted(ca('former', [-300, 3000], { commonName: 'kubernetes' }), ours),
      target: present(leaf('leaf', [-1, 29], 'ca')),
      signer: absent,
    },
    want: 'renew Absent',
  },
  {
    name: 'nothing is there at all: the first generation',
    change: { signer: absent, bundle: absent, composed: absent, copy: absent, target: absent },
    want: 'renew Absent',
  },
];

function decide({ policy = onlyWhenExpired, change, now = start, resolved = chain }: Row): Plan {
  const facts = new Map([...healthy(), ...Object.entries(change)]);
  return plan({ resolved, facts, policy, clock: goodClock, now });
}

test.each(rows)('a CA that others brought: $name', (row) => {
  const { decisions } = decide(row);
  const verdict = decisions.find(({ artefact }) => artefact === 'signer');
  expect(`${verdict?.action} ${verdict?.reason}`).toBe(row.want);
  for (const words of row.says ?? []) expect(verdict?.message).toContain(words);
});

test('a CA that others brought: what needs it waits for a person, so a single run ends with exit code 5', () => {
  const change = { ...trusted(theirs), signer: absent, target: present(leaf('leaf', [-30, -1], 'ca', ofTheirs)) };
  const unmet = decide({ name: '', change, want: '' }).decisions.filter(({ action }) => action !== 'keep');
  expect(unmet.map(({ artefact, byHand }) => [artefact, byHand])).toEqual([
    ['signer', true],
    ['target', true],
  ]);
});

test('a CA that others brought: what is made of it waits until it is put back', () => {
  const change = { ...trusted(theirs), signer: absent, bundle: absent, sibling: present(theirs) };
  const { decisions } = decide({ name: '', resolved: siblings, change, want: '' });
  expect(decisions.find(({ artefact }) => artefact === 'bundle')).toMatchObject({ action: 'renew', after: ['signer'] });
});
