// Rows that are copied from what is there, in files of a host whose CA has no bundle: kubeadm's. Each rule with its
// decision, its reason and the time of the next look.
import { describe, expect, it, test } from 'vitest';
import type { Resolved, ResolvedTarget } from '../../lib/inventory/model.ts';
import type { CertificateFacts } from '../../lib/pki/certificate.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import type { ClockFacts } from '../../lib/plan/clock-rules.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import { plan } from '../../lib/plan/plan.ts';
import {
  at,
  beforeExpiry,
  ca,
  certificate,
  leaf,
  onlyWhenExpired,
  present,
  signer,
  start,
  target,
} from '../support/facts.ts';

const clock: ClockFacts = { builtAt: at(-4000), synchronised: true };
const day = 86_400_000;
const life = { validity: 365 * day, refresh: 292 * day };

const like = { ...target, ...life, issuer: 'ca', template: 'present' } as const;
const serving: ResolvedTarget = {
  ...like,
  name: 'apiserver',
  location: { kind: 'pemPair', certFile: '/api.crt', keyFile: '/api.key' },
};
const conf: ResolvedTarget = {
  ...like,
  name: 'conf',
  usage: 'client',
  commonName: 'kubernetes-admin',
  hostnames: [],
  location: { kind: 'kubeconfig', file: '/admin.conf', endpoint: 'controlPlane' },
};
const { issuer: _, ...selfSigned } = {
  ...like,
  name: 'own',
  location: { kind: 'combinedPem', file: '/own.pem' },
} as const;
const own: ResolvedTarget = { ...selfSigned, presence: 'optional' };
const kubeadm: Resolved = {
  name: 'host',
  artefacts: [
    {
      ...signer,
      name: 'ca',
      owned: false,
      validity: 3650 * day,
      refresh: 2920 * day,
      location: { kind: 'pemPair', certFile: '/ca.crt', keyFile: '/ca.key' },
    },
    serving,
    conf,
    own,
  ],
};

const root = ca('ca', [-100, 3550]);
const signedAbove = present({ ...root, signedBy: ['above'] });
const authorities = (fact: ArtefactFacts & { state: 'present' }, ...prints: readonly string[]): ArtefactFacts => ({
  ...fact,
  authorities: prints,
});
const user = (days: readonly [number, number], by = 'ca') => present(leaf('user', days, by));
const keyAbsent = (...certificates: readonly CertificateFacts[]): ArtefactFacts => ({
  state: 'broken',
  problem: 'keyAbsent',
  version: '1',
  message: 'it has no key',
  certificates,
});
const healthy: Record<string, ArtefactFacts> = {
  ca: present(root),
  apiserver: present(leaf('api', [-100, 265], 'ca')),
  // As kubeadm makes it: it begins with the CA.
  conf: authorities(user([-100, 265]), 'ca'),
  own: { state: 'absent' },
};
const old = ca('old', [-3000, 600]);
const rollover = present(root, old);

/** Until the hundredth day. */
const behindBalancer: ArtefactFacts = {
  ...user([-100, 265]),
  authorities: ['corporate'],
  othersAuthorityEnds: at(100),
};
const withRow = (row: ResolvedTarget): Resolved => ({
  ...kubeadm,
  artefacts: kubeadm.artefacts.map((one) => (one.name === row.name ? row : one)),
});
const rotated = withRow({ ...conf, rotatedBy: 'kubelet' });
/** Its API server, and a kubeconfig that names it. */
const api = 'https://192.0.2.1:6443';
const served = { component: 'kube-apiserver', needs: 'nothing', proof: { kind: 'served', serverName: 'k' } } as const;
const here: Resolved = { ...withRow({ ...serving, readers: [served] }), endpoints: { local: api } };
const naming = (server: string): Record<string, ArtefactFacts> => ({ conf: { ...behindBalancer, server } });
const superseded = withRow({ ...own, supersededBy: 'conf' });

interface Row {
  readonly name: string;
  readonly policy?: RenewalPolicy;
  readonly now?: Date;
  readonly change?: Record<string, ArtefactFacts>;
  readonly resolved?: Resolved;
  readonly clock?: ClockFacts;
  /** artefact: action, reason, and the day of the next look where the row is about it. */
  readonly want: Record<string, readonly [decision: string, nextLook?: Date]>;
}

const soon = new Date(start.getTime() + 30_000);
const inAnHour = new Date(start.getTime() + 3_600_000);

const rows: Row[] = [
  {
    name: 'a healthy node: nothing to do before something ends',
    want: {
      ca: ['keep Healthy', at(3550)],
      apiserver: ['keep Healthy', at(265)],
      conf: ['keep Healthy', at(265)],
      own: ['keep Healthy', inAnHour],
    },
  },
  {
    name: 'files have no other rotator: renewed at their end, without grace',
    now: at(265),
    want: { apiserver: ['renew Expired', at(265)], conf: ['renew Expired', at(265)], own: ['keep Healthy'] },
  },
  {
    name: 'what must be there is made when it is absent, what may be absent is not',
    change: { apiserver: { state: 'absent' }, conf: { state: 'absent' } },
    want: { apiserver: ['renew Absent', start], conf: ['renew Absent', start], own: ['keep Healthy', inAnHour] },
  },
  {
    name: 'what may be absent is repaired where it is there',
    change: { own: { state: 'broken', problem: 'unreadable', version: '1', message: 'torn' } },
    want: { own: ['renew Unreadable', start] },
  },
  {
    name: 'a self-signed certificate needs no signer',
    change: { own: present(leaf('own', [-365, -1], 'own-ca')), ca: { state: 'absent' } },
    want: { own: ['renew Expired', start], ca: ['blocked NotOurs', soon] },
  },
  {
    name: 'names that were added or taken away by hand stay: the certificate is the declaration',
    change: { apiserver: present(leaf('api', [-100, 265], 'ca', { hostnames: ['elsewhere'] })) },
    want: { apiserver: ['keep Healthy', at(265)] },
  },
  {
    name: 'a serving certificate without any name is remade, also where the row is copied from what is there',
    change: { apiserver: present(leaf('api', [-100, 265], 'ca', { hostnames: [] })) },
    want: { apiserver: ['renew HostnameMissing', start] },
  },
  {
    name: 'a declared name that is missing is added where the row is not copied from what is there',
    resolved: {
      ...kubeadm,
      artefacts: kubeadm.artefacts.map((row) =>
        row.name === 'apiserver' ? { ...serving, template: 'declared' } : row,
      ),
    },
    change: { apiserver: present(leaf('api', [-100, 265], 'ca', { hostnames: ['elsewhere'] })) },
    want: { apiserver: ['renew HostnameMissing', start] },
  },
  {
    name: 'a leaf that the own file of its CA cannot verify is remade',
    change: { apiserver: present(leaf('api', [-100, 265], 'other')) },
    want: { apiserver: ['renew IssuerNotTrusted', start], conf: ['keep Healthy'] },
  },
  {
    name: 'a CA that is being replaced: leaves of the former one in its file are good',
    change: {
      ca: rollover,
      apiserver: present(leaf('api', [-100, 265], 'old')),
      conf: authorities(user([-100, 265], 'old'), 'old'),
    },
    want: { apiserver: ['keep Healthy', at(265)], conf: ['keep Healthy', at(265)] },
  },
  {
    name: 'a kubeconfig that knows only the former CA is remade with the server that it must know',
    now: at(266),
    change: {
      ca: rollover,
      apiserver: present(leaf('api', [-100, 265], 'old')),
      conf: authorities(user([0, 365], 'old'), 'old'),
    },
    want: { apiserver: ['renew Expired', at(266)], conf: ['renew AuthorityDiffers', at(266)] },
  },
  {
    name: 'a kubeconfig that knows its server by a former CA of ours is remade',
    change: { conf: authorities(user([-100, 265]), 'foreign') },
    want: { conf: ['renew AuthorityDiffers', start], apiserver: ['keep Healthy'] },
  },
  {
    name: 'a kubeconfig that knows its server by the CA of a load balancer works, and stays',
    change: { conf: behindBalancer },
    want: { conf: ['keep Healthy', at(265)] },
  },
  {
    name: 'a kubeconfig whose load balancer has a CA that has expired is remade',
    now: at(100),
    change: { conf: behindBalancer },
    want: { conf: ['renew AuthorityDiffers', at(100)] },
  },
  {
    name: 'the owner lets a kubeconfig know the CA that signs now, whatever it knows besides',
    policy: beforeExpiry,
    change: { conf: behindBalancer },
    want: { conf: ['renew AuthorityDiffers', start] },
  },
  {
    name: "a kubeconfig for this machine's own API server follows the CA of the cluster",
    resolved: here,
    change: naming(api),
    want: { conf: ['renew AuthorityDiffers', start] },
  },
  {
    name: "a kubeconfig for this machine's own API server by its loopback follows the CA of the cluster",
    resolved: here,
    change: naming('https://localhost:6443'),
    want: { conf: ['renew AuthorityDiffers', start] },
  },
  ...['https://api.example.com:6443', 'https://192.0.2.9:6443', 'https://192.0.2.1:8443', 'no URL'].map((server) => ({
    name: `a kubeconfig for another address, or a load balancer beside the API server, keeps its CA: ${server}`,
    resolved: here,
    change: naming(server),
    want: { conf: ['keep Healthy', at(265)] as const },
  })),
  {
    name: 'a kubeconfig for an API server that shows a certificate which is not ours keeps its CA',
    resolved: { ...kubeadm, endpoints: { local: api } },
    change: naming(api),
    want: { conf: ['keep Healthy', at(265)] },
  },
  {
    name: 'a kubeconfig that names no CA knows its server by the roots of the system',
    change: { conf: user([-100, 265]) },
    want: { conf: ['keep Healthy', at(265)] },
  },
  {
    name: 'credentials of others are theirs: nothing is to be done',
    change: { conf: { state: 'broken', problem: 'foreign', version: '1', message: 'exec' } },
    want: { conf: ['keep NotOurs', inAnHour] },
  },
  {
    name: 'a kubeconfig cannot be made from nothing while nobody knows its server',
    change: { conf: { state: 'absent', madeFromNothing: true } },
    want: { conf: ['blocked Absent', soon] },
  },
  {
    name: 'a kubeconfig is made from nothing where its server is known',
    resolved: { ...kubeadm, endpoints: { controlPlane: 'https://192.0.2.1:6443' } },
    change: { conf: { state: 'absent', madeFromNothing: true } },
    want: { conf: ['renew Absent', start] },
  },
  {
    name: 'what the kubelet rotates: the owner leaves it alone until it has expired',
    policy: beforeExpiry,
    now: at(264),
    resolved: rotated,
    want: { conf: ['keep Healthy', at(265)], apiserver: ['renew RefreshDue'] },
  },
  {
    name: 'what the kubelet rotates is renewed when it has expired',
    policy: beforeExpiry,
    now: at(265),
    resolved: rotated,
    want: { conf: ['renew Expired', at(265)] },
  },
  {
    name: "what the kubelet rotates stays while it is valid when the cluster's signer for kubelets is another CA",
    resolved: rotated,
    change: { conf: authorities(user([-100, 265], 'kubelet-signer'), 'ca') },
    want: { conf: ['keep NotOurs', at(265)] },
  },
  {
    name: 'what the kubelet rotates is remade when a former CA of ours has signed it',
    resolved: rotated,
    change: { conf: authorities(present(leaf('user', [-100, 265], 'former', { issuer: 'CN=ca' })), 'ca') },
    want: { conf: ['renew IssuerNotTrusted', start] },
  },
  {
    name: "another CA's signature does not hide that the server cannot be known",
    resolved: rotated,
    change: { conf: authorities(user([-100, 265], 'kubelet-signer'), 'former') },
    want: { conf: ['renew AuthorityDiffers', start] },
  },
  {
    name: 'what nobody reads any more is not made, as long as its successor is there',
    resolved: superseded,
    change: { own: present(leaf('own', [-365, -1], 'own-ca')), conf: user([-100, 265]) },
    want: { own: ['keep Healthy', inAnHour] },
  },
  {
    name: 'what has a successor is made where that is absent',
    resolved: superseded,
    change: { own: present(leaf('own', [-365, -1], 'own-ca')), conf: { state: 'absent' } },
    want: { own: ['renew Expired', start] },
  },
  {
    name: 'a kubeconfig with a CA that cannot be read is remade',
    change: { conf: authorities(user([-100, 265])) },
    want: { conf: ['renew AuthorityDiffers', start] },
  },
  {
    name: 'a CA in a file that a kubeconfig names is not ours, so a renewal would change nothing',
    change: { conf: { ...user([-100, 265]), authorities: ['foreign'], authorityIsForeign: true } },
    want: { conf: ['keep Healthy', at(265)] },
  },
  {
    name: 'a CA that has expired, and that its own key has not signed, takes its leaves with it',
    now: at(3551),
    change: {
      ca: signedAbove,
      apiserver: present(leaf('api', [3500, 3600], 'ca')),
      conf: authorities(user([3500, 3600]), 'ca'),
    },
    want: {
      ca: ['blocked NotOurs', new Date(at(3551).getTime() + 30_000)],
      apiserver: ['blocked SignerUnusable', new Date(at(3551).getTime() + 30_000)],
      conf: ['blocked SignerUnusable'],
    },
  },
  {
    name: 'an external CA: what is valid is left alone',
    change: { ca: keyAbsent(root) },
    want: { ca: ['keep NotOurs', at(3550)], apiserver: ['keep Healthy', at(265)], conf: ['keep Healthy', at(265)] },
  },
  {
    name: 'an external CA: what has ended or is broken must be brought',
    now: at(266),
    change: { ca: keyAbsent(root), conf: { state: 'broken', problem: 'unreadable', version: '1', message: 'torn' } },
    want: {
      ca: ['keep NotOurs', at(3550)],
      apiserver: ['blocked SignerExternal', new Date(at(266).getTime() + 30_000)],
      conf: ['blocked SignerExternal', new Date(at(266).getTime() + 30_000)],
      own: ['keep Healthy'],
    },
  },
  {
    name: 'an external CA: a leaf that it has not signed must be brought',
    change: { ca: keyAbsent(root), apiserver: present(leaf('api', [-100, 265], 'other')) },
    want: { apiserver: ['blocked SignerExternal', soon] },
  },
  {
    name: 'an external CA under the owner: what is due is said, and left alone while it works',
    policy: beforeExpiry,
    now: at(200),
    change: { ca: keyAbsent(root) },
    want: { apiserver: ['keep SignerExternal', new Date(at(200).getTime() + 30_000)] },
  },
  {
    name: 'a CA whose key is garbage is something else',
    now: at(266),
    change: {
      ca: { state: 'broken', problem: 'mismatchedPair', version: '1', message: 'no pair', certificates: [root] },
    },
    want: { ca: ['blocked NotOurs'], apiserver: ['blocked SignerUnusable'] },
  },
  {
    name: 'a file of the CA that could not be read says nothing about its leaves',
    change: { ca: { state: 'unavailable', message: 'EIO' } },
    want: { ca: ['blocked Unavailable'], apiserver: ['keep Healthy', at(265)], conf: ['keep Healthy', at(265)] },
  },
  {
    name: 'ahead of time nothing is renewed under OnlyWhenExpired',
    now: at(264),
    want: { apiserver: ['keep Healthy', at(265)], conf: ['keep Healthy', at(265)] },
  },
  {
    name: 'the owner renews by the time that is left: not a second before validity less refresh',
    policy: beforeExpiry,
    now: new Date(at(192).getTime() - 1000),
    want: { apiserver: ['keep Healthy', at(192)], conf: ['keep Healthy', at(192)] },
  },
  {
    name: 'the owner renews by the time that is left: then it does',
    policy: beforeExpiry,
    now: at(192),
    want: { apiserver: ['renew RefreshDue', at(192)], conf: ['renew RefreshDue', at(192)] },
  },
  {
    name: 'a kubeconfig that begins with its CA, three years ago, is not old',
    policy: beforeExpiry,
    change: { ca: present(ca('ca', [-1095, 2555])), conf: authorities(user([-1095, 365]), 'ca') },
    want: { conf: ['keep Healthy', at(292)] },
  },
  {
    name: 'the owner need not wait until a CA without a bundle is known: it may be of yesterday',
    policy: beforeExpiry,
    change: { ca: present(ca('ca', [-1, 3649])), conf: authorities(user([-1, 30]), 'ca') },
    want: { conf: ['renew RefreshDue', start] },
  },
  {
    name: 'the owner does not renew what its ending CA would not let live longer',
    policy: beforeExpiry,
    change: { ca: present(ca('ca', [-3600, 50])), conf: authorities(user([-300, 50]), 'ca') },
    want: { conf: ['keep SignerEnding'] },
  },
  {
    name: 'certificates of the future and a clock that nobody vouches for: nothing is signed',
    clock: { builtAt: at(-100), synchronised: false },
    change: { conf: authorities(user([10, 375]), 'ca'), apiserver: present(leaf('api', [10, 375], 'ca')) },
    want: { conf: ['blocked ClockImplausible', soon], apiserver: ['blocked ClockImplausible', soon] },
  },
  {
    name: 'a self-signed certificate of the future says nothing of the clock',
    clock: { builtAt: at(-100), synchronised: false },
    change: { conf: { state: 'absent' }, own: present(leaf('own', [10, 375], 'own')) },
    want: { conf: ['renew Absent'] },
  },
  {
    name: 'a kubeconfig as old as its CA is no sign of a wrong clock',
    clock: { builtAt: at(-100), synchronised: false },
    now: at(400),
    want: { conf: ['renew Expired', at(400)], apiserver: ['renew Expired', at(400)] },
  },
];

test.each(rows)(
  'plan(): $name',
  ({ policy = onlyWhenExpired, now = start, change = {}, resolved = kubeadm, want, ...row }) => {
    const facts = new Map(Object.entries({ ...healthy, ...change }));
    const { decisions } = plan({ resolved, facts, policy, clock: row.clock ?? clock, now });
    for (const [name, [decision, nextLook]] of Object.entries(want)) {
      const got = decisions.find(({ artefact }) => artefact === name);
      expect(`${name}: ${got?.action} ${got?.reason}`).toBe(`${name}: ${decision}`);
      if (nextLook !== undefined) expect(got?.recheckAt, name).toEqual(nextLook);
      expect(got?.recheckAt.getTime(), `${name}: the next look is never in the past`).toBeGreaterThanOrEqual(
        now.getTime(),
      );
    }
  },
);

it('a kubeconfig without a server says what to configure', () => {
  const facts = new Map(Object.entries({ ...healthy, conf: { state: 'absent', madeFromNothing: true } as const }));
  const { decisions } = plan({ resolved: kubeadm, facts, policy: onlyWhenExpired, clock, now: start });
  expect(decisions.find(({ artefact }) => artefact === 'conf')?.message).toBe(
    'it is absent, there is no backup of it, and the address of the API server is unknown; give the parameter ' +
      '"advertiseAddress" (--parameter advertiseAddress=ADDRESS), or bring a kubeconfig from another machine',
  );
});

describe('what must be brought by hand', () => {
  it.each<[string, Record<string, ArtefactFacts>, number, readonly string[]]>([
    ['nothing on a healthy node', {}, 0, []],
    ['nothing that can be made here', {}, 266, []],
    ['what an external CA has signed and has expired', { ca: keyAbsent(root) }, 266, ['apiserver', 'conf']],
    ['nothing of an external CA while it is valid', { ca: keyAbsent(root) }, 264, []],
    ['nothing of a CA that is renewed with its own key', {}, 3551, []],
    ['a CA that has expired under another, and its leaves', { ca: signedAbove }, 3551, ['ca', 'apiserver', 'conf']],
    ['a CA that is absent, and what it would sign', { ca: { state: 'absent' } }, 266, ['ca', 'apiserver', 'conf']],
    ['nothing of a CA that could not be read', { ca: { state: 'unavailable', message: 'EIO' } }, 266, []],
    ['nothing of a CA that has not begun', { ca: present(ca('ca', [300, 3550])) }, 266, []],
    ['no kubeconfig that only lacks an address', { conf: { state: 'absent', madeFromNothing: true } }, 0, []],
  ])('is marked: %s', (_title, change, days, wanted) => {
    const facts = new Map(Object.entries({ ...healthy, ...change }));
    const { decisions } = plan({ resolved: kubeadm, facts, policy: onlyWhenExpired, clock, now: at(days) });
    expect(decisions.flatMap(({ artefact, byHand }) => (byHand === true ? [artefact] : []))).toEqual(wanted);
  });

  const message = (change: Record<string, ArtefactFacts>, name: string): string | undefined => {
    const facts = new Map(Object.entries({ ...healthy, ca: keyAbsent(root), ...change }));
    return plan({ resolved: kubeadm, facts, policy: onlyWhenExpired, clock, now: start }).decisions.find(
      ({ artefact }) => artefact === name,
    )?.message;
  };

  it('is said with its name, its signer and its place', () => {
    expect(message({ conf: { state: 'absent' } }, 'conf')).toBe(
      'it is absent; the key of its signer is not on this machine: bring a new certificate for "kubernetes-admin", ' +
        'signed by ca (CN=ca), with its key to kubeconfig "/admin.conf"',
    );
    const gone = present(certificate('api', [-100, -1], { signedBy: ['ca'] }));
    expect(message({ apiserver: gone }, 'apiserver')).toBe(
      'it expired at 2026-05-31T00:00:00.000Z; the key of its signer is not on this machine: bring a new certificate, ' +
        'signed by ca (CN=ca), with its key to pair "/api.crt"',
    );
  });
});
