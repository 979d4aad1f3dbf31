// What others maintain: it is used and never written, and nothing bad in it spreads. And host names that only the API
// tells.
import { describe, expect, it } from 'vitest';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import type { CertificateFacts } from '../../lib/pki/certificate.ts';
import type { ArtefactFacts, Facts } from '../../lib/plan/facts.ts';
import { gather } from '../../lib/plan/gather.ts';
import type { Decision } from '../../lib/plan/decision.ts';
import { plan } from '../../lib/plan/plan.ts';
import {
  at,
  both,
  bundle,
  certificate,
  day,
  goodClock,
  healthy,
  leaf,
  onlyWhenExpired,
  present,
  signer,
  start,
  target,
  theirs,
} from '../support/facts.ts';
import { MemoryStore } from '../support/stories/memory-store.ts';

const theirPair = {
  kind: 'external',
  name: 'their-pair',
  location: { kind: 'secret', namespace: 'theirs', name: 'pair' },
  readers: [],
} satisfies ResolvedArtefact;
const copyOf = (of: ResolvedArtefact): ResolvedArtefact => ({
  kind: 'copy',
  name: `copy-of-${of.name}`,
  location: { ...of.location, name: 'copy' } as ResolvedArtefact['location'],
  readers: [],
  of: of.name,
});
const resolved: Resolved = {
  name: 'external',
  artefacts: [theirs, theirPair, signer, bundle, both, copyOf(theirs), copyOf(theirPair), target],
};

const ca1 = certificate('their-ca', [-10, 300], { isCa: true });
const dead = certificate('their-dead-ca', [-300, -10], { isCa: true });
const client = certificate('their-client', [-10, 20]);
const own = (): readonly CertificateFacts[] => {
  const fact = healthy().get('bundle');
  return fact?.state === 'present' ? fact.certificates : [];
};

function decide(
  change: Record<string, ArtefactFacts>,
  rows = resolved,
  unattended = false,
): ReadonlyMap<string, Decision> {
  const facts: Facts = new Map([
    ...healthy(),
    ['theirs', present(ca1)],
    ['their-pair', present(client)],
    ['both', present(...own(), ca1)],
    ['copy-of-theirs', present(ca1)],
    ['copy-of-their-pair', present(client)],
    ...Object.entries(change),
  ]);
  const { decisions } = plan({
    resolved: rows,
    facts,
    policy: onlyWhenExpired,
    clock: goodClock,
    now: start,
    unattended,
  });
  return new Map(decisions.map((one) => [one.artefact, one]));
}

const text = (change: Record<string, ArtefactFacts>): Record<string, string> =>
  Object.fromEntries([...decide(change)].map(([name, { action, reason }]) => [name, `${action} ${reason}`]));

const absent: ArtefactFacts = { state: 'absent' };
const unread: ArtefactFacts = { state: 'unavailable', message: 'no answer' };
const broken: ArtefactFacts = { state: 'broken', problem: 'unreadable', version: '1', message: 'bad PEM' };

describe('what is given', () => {
  it('is well when it is there', () => expect(new Set(Object.values(text({})))).toEqual(new Set(['keep Healthy'])));

  it('is skipped where it is absent, and what was copied of it stays', () => {
    expect(new Set(Object.values(text({ theirs: absent, 'their-pair': absent })))).toEqual(new Set(['keep Healthy']));
  });

  it('is waited for where a copy of it is absent or has ended', () => {
    const ended = present(certificate('old', [-60, -1]));
    expect(text({ 'their-pair': absent, 'copy-of-their-pair': absent })).toMatchObject({
      'copy-of-their-pair': 'blocked Unavailable',
    });
    expect(text({ 'their-pair': absent, 'copy-of-their-pair': ended })).toMatchObject({
      'copy-of-their-pair': 'blocked Unavailable',
    });
  });

  it('is reported where it is broken, and spreads to nothing', () => {
    expect(text({ theirs: broken, 'their-pair': broken })).toMatchObject({
      theirs: 'blocked NotOurs',
      'their-pair': 'blocked NotOurs',
      both: 'keep Healthy',
      'copy-of-theirs': 'keep Healthy',
      'copy-of-their-pair': 'keep Healthy',
    });
  });

  it('is taken over: its valid certificates into a bundle, the whole of it into a copy', () => {
    const added = certificate('added', [-1, 300], { isCa: true });
    expect(text({ theirs: present(ca1, added) })).toMatchObject({
      theirs: 'keep Healthy',
      both: 'renew InputsDiffer',
      'copy-of-theirs': 'renew OriginalDiffers',
    });
    expect(text({ theirs: present(ca1, dead) })).toMatchObject({ both: 'keep Healthy' });
  });

  it('is awaited by what is made of it, while it has nothing valid for that', () => {
    const awaiting = (change: Record<string, ArtefactFacts>): string[] =>
      [...decide(change)].flatMap(([name, { awaits }]) => (awaits === true ? [name] : []));
    expect(awaiting({})).toEqual([]);
    expect(awaiting({ theirs: absent })).toEqual([]);
    expect(awaiting({ theirs: present(dead), both: present(...own()), 'copy-of-theirs': present(dead) })).toEqual([
      'both',
      'copy-of-theirs',
    ]);
    expect(awaiting({ theirs: present(dead) })).toEqual(['both', 'copy-of-theirs']);
    const ended = present(certificate('old', [-60, -1]));
    expect(awaiting({ 'their-pair': absent, 'copy-of-their-pair': ended })).toEqual(['copy-of-their-pair']);
    const lost = { theirs: absent, bundle: absent, signer: unread, both: absent };
    expect(awaiting(lost)).toEqual(['both']);
  });

  describe('that has just changed', () => {
    const fresh = (...certificates: readonly CertificateFacts[]): ArtefactFacts => ({
      ...present(...certificates),
      since: start,
    });
    const pairAfter = (ago: number): Record<string, ArtefactFacts> => ({
      'their-pair': fresh(client),
      'copy-of-their-pair': present(certificate('old', [-60, -ago / day])),
    });

    it('is left to whoever maintains its copies, while these still work', () => {
      expect(text({ theirs: fresh(ca1, certificate('added', [-1, 300], { isCa: true })) })).toMatchObject({
        both: 'keep Settling',
        'copy-of-theirs': 'keep Settling',
      });
    });

    it('is copied at once over what has ended, once its owner has had his grace', () => {
      expect(text(pairAfter(60_000))).toMatchObject({ 'copy-of-their-pair': 'renew OriginalDiffers' });
      expect(text(pairAfter(59_000))).toMatchObject({ 'copy-of-their-pair': 'keep Settling' });
      const deadOnes = { 'their-pair': fresh(certificate('older', [-60, -2])), 'copy-of-their-pair': present(dead) };
      expect(text(deadOnes)).toMatchObject({ 'copy-of-their-pair': 'keep Settling' });
    });

    it('is taken over at once where nobody else renews anything', () => {
      const added = certificate('added', [-1, 300], { isCa: true });
      const change = { theirs: fresh(ca1, added), 'their-pair': fresh(certificate('next', [-1, 29])) };
      const decisions = decide(change, resolved, true);
      for (const name of ['copy-of-theirs', 'both']) expect(decisions.get(name)?.action, name).toBe('renew');
      // What the copy holds still works: it may be newer than what was read of its original.
      expect(decisions.get('copy-of-their-pair')).toMatchObject({ action: 'keep', reason: 'Settling' });
    });

    it('takes nothing valid from a copy: another of us may have read its original later', () => {
      const next = certificate('next-ca', [-1, 300], { isCa: true });
      const change = { theirs: { ...present(ca1), since: at(-1) }, 'copy-of-theirs': fresh(ca1, next) };
      const decision = decide(change, resolved, true).get('copy-of-theirs');
      expect(decision).toMatchObject({ action: 'keep', reason: 'Settling' });
    });

    it('says nothing of what is ours: another one of us may stand between two writes', () => {
      const decisions = decide({ both: fresh(ca1) }, resolved, true);
      expect(decisions.get('both')).toMatchObject({ action: 'keep', reason: 'Settling' });
    });
  });

  it('says who must renew a pair that has ended', () => {
    const ended = present(certificate('old', [-60, -1]));
    const decision = decide({ 'their-pair': ended, 'copy-of-their-pair': ended }).get('their-pair');
    expect(decision).toMatchObject({ action: 'keep', reason: 'NotOurs' });
    expect(decision?.message).toContain('whoever maintains it must renew it');
  });

  it('is never decided to be written, whatever it is', () => {
    for (const fact of [absent, broken, present(dead), present()]) {
      const decisions = decide({ theirs: fact, 'their-pair': fact });
      for (const name of ['theirs', 'their-pair']) expect(decisions.get(name)?.action).not.toBe('renew');
    }
  });
});

describe('gather() of what is given', () => {
  const look = async (
    entries: Record<string, string>,
    row: ResolvedArtefact = theirs,
  ): Promise<ArtefactFacts | undefined> => {
    const store = new MemoryStore();
    const bytes = Object.entries(entries).map(([key, value]) => [key, Buffer.from(value)] as const);
    store.put(row.location, { entries: Object.fromEntries(bytes), annotations: {} });
    const only = { name: 'external', artefacts: [row] };
    const { facts } = await gather({ resolved: only, store, now: start, signal: AbortSignal.timeout(1000) });
    return facts.get(row.name);
  };

  it.each([
    ['no entry', {}],
    ['an empty one', { 'ca-bundle.crt': '' }],
    ['blank lines', { 'ca-bundle.crt': '\n \n' }],
  ])('finds no certificate in a bundle with %s', async (_title, entries) => {
    expect(await look(entries)).toMatchObject({ state: 'present', certificates: [] });
  });

  it('finds a bundle broken that holds anything else, with no certificate to be used', async () => {
    const fact = await look({ 'ca-bundle.crt': 'garbage' });
    expect(fact).toMatchObject({ state: 'broken', problem: 'unreadable' });
    expect(fact).toMatchObject({ certificates: [] });
  });

  it('finds a pair without certificate broken', async () => {
    expect(await look({ 'tls.key': 'x' }, theirPair)).toMatchObject({ state: 'broken' });
  });
});

describe('names that only the API tells', () => {
  const namesUnknown = 'Network "cluster" status.serviceNetwork has no entry';
  const unknown = {
    ...resolved,
    artefacts: resolved.artefacts.map((row) => (row === target ? { ...target, namesUnknown } : row)),
  };
  const decideTarget = (fact?: ArtefactFacts): Decision | undefined =>
    decide(fact === undefined ? {} : { target: fact }, unknown).get('target');

  it('are said to be unknown of a certificate that is good', () => {
    const decision = decideTarget();
    expect(decision).toMatchObject({ action: 'keep', reason: 'HostnameUnknown' });
    expect(decision?.message).toContain(namesUnknown);
  });

  it('keep nothing from being renewed that has names already', () => {
    expect(decideTarget(present(leaf('old', [-60, -1], 'ca')))).toMatchObject({ action: 'renew', reason: 'Expired' });
  });

  it('are waited for where there is no certificate', () => {
    const decision = decideTarget(absent);
    expect(decision).toMatchObject({ action: 'blocked', reason: 'HostnameUnknown' });
    expect(decision?.message).toContain(namesUnknown);
    expect(decision?.recheckAt.getTime()).toBeLessThan(start.getTime() + day);
  });
});

describe('a copy of a signer', () => {
  const copy = {
    kind: 'copy',
    name: 'copy-of-signer',
    location: { ...signer.location, name: 'copy' },
    readers: [],
    of: 'signer',
  } satisfies ResolvedArtefact;
  const rows: Resolved = { name: 'copies', artefacts: [signer, bundle, copy] };
  const first = (): ReturnType<typeof certificate> => {
    const fact = healthy().get('signer');
    if (fact?.state !== 'present' || fact.certificates[0] === undefined) throw new Error('no signer');
    return fact.certificates[0];
  };

  it('holds its first certificate only', () => {
    const signerWithChain: ArtefactFacts = { ...present(first(), ca1), digest: 'two' };
    const one = {
      signer: signerWithChain,
      'copy-of-signer': { ...present(first()), digest: 'one' },
    };
    expect(decide(one, rows).get('copy-of-signer')).toMatchObject({ action: 'keep', reason: 'Healthy' });
    const two = { signer: signerWithChain, 'copy-of-signer': signerWithChain };
    expect(decide(two, rows).get('copy-of-signer')).toMatchObject({ action: 'renew', reason: 'OriginalDiffers' });
  });
});
