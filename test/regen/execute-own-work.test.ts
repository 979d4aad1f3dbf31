import { describe, expect, it } from 'vitest';
import type { Certificate } from '../../lib/pki/certificate.ts';
import type { CertificateFacts } from '../../lib/pki/certificate.ts';
import type { ArtefactFacts, Facts } from '../../lib/plan/facts.ts';
import type { StepOutcome, StepResult } from '../../lib/regen/execute.ts';
import { noOwnWork, type OwnWork, ownWork, withoutWaiting } from '../../lib/regen/execute.ts';
import { bundle, signer, target } from '../support/facts.ts';

const since = new Date('2026-06-01T00:00:00Z');
/** Of a certificate, only its fingerprint counts here. */
const certificate = (fingerprint: string): CertificateFacts => ({ fingerprint }) as CertificateFacts;

const holding = (...prints: readonly string[]): ArtefactFacts => ({
  state: 'present',
  version: prints.join(),
  digest: prints.join(),
  since,
  certificates: prints.map(certificate),
});
const factsOf = (rows: Readonly<Record<string, ArtefactFacts>>): Facts => new Map(Object.entries(rows));

const rows = { signer, bundle, target };
function step(name: keyof typeof rows, outcome: StepOutcome, ...made: readonly string[]): StepResult {
  const decision = {
    artefact: name,
    action: 'renew',
    reason: 'Expired',
    message: '',
    recheckAt: since,
    after: [],
  } as const;
  const certificates = made.map((print) => ({ facts: certificate(print) }) as Certificate);
  return { artefact: rows[name], decision, outcome, certificates };
}

const before = factsOf({
  signer: holding('S1'),
  bundle: holding('S1'),
  target: holding('T1'),
  other: holding('O1'),
});
/** The signer was written, the bundle was not, so the target was not tried. */
const half: OwnWork = ownWork(
  noOwnWork,
  [step('signer', 'written', 'S2'), step('bundle', 'failed', 'S2', 'S1'), step('target', 'skipped')],
  before,
);
const waiting = (work: OwnWork, facts: Facts): string[] =>
  [...withoutWaiting(facts, work)].filter(([, fact]) => 'since' in fact).map(([name]) => name);

describe('withoutWaiting()', () => {
  it.each<{ name: string; now: Readonly<Record<string, ArtefactFacts>>; waits: readonly string[] }>([
    {
      name: 'our own work, half done',
      now: { signer: holding('S2'), bundle: holding('S1'), target: holding('T1') },
      waits: [],
    },
    {
      name: 'a write that was carried out although it failed for us',
      now: { signer: holding('S2'), bundle: holding('S2', 'S1'), target: holding('T1') },
      waits: [],
    },
    {
      name: 'a leaf of another writer beside what we left, signer and bundle perhaps read before it wrote them',
      now: { signer: holding('S2'), bundle: holding('S1'), target: holding('T3') },
      waits: ['target'],
    },
    {
      name: "another writer's signer",
      now: { signer: holding('S3'), bundle: holding('S1'), target: holding('T1') },
      waits: ['signer'],
    },
    { name: 'rows that we had nothing to do with', now: { other: holding('O1') }, waits: ['other'] },
  ])('$name', ({ now, waits }) => {
    expect(waiting(half, factsOf(now))).toEqual(waits);
  });

  it('leaves what is absent or broken as it is', () => {
    const facts = factsOf({ signer: { state: 'absent' }, bundle: { state: 'unavailable', message: '' } });
    expect(withoutWaiting(facts, half)).toEqual(facts);
  });

  it('knows no copy that holds no certificate', () => {
    const empty = factsOf({ bundle: holding() });
    expect(waiting(ownWork(noOwnWork, [step('bundle', 'failed')], empty), empty)).toEqual(['bundle']);
  });
});

it('knows two states of a row, however often a write of it has failed: what was found, and what was made last', () => {
  let work = noOwnWork;
  for (let attempt = 1; attempt <= 100; attempt += 1) {
    const found = factsOf({ target: holding(`T${attempt}`) });
    work = ownWork(work, [step('target', 'failed', `made${attempt}`)], found);
  }
  const known = (print: string): boolean => waiting(work, factsOf({ target: holding(print) })).length === 0;
  expect(['T100', 'made100', 'T99', 'made99', 'T1', 'made1'].filter(known)).toEqual(['T100', 'made100']);
  // What could not be tried made nothing, and the attempt before may still have been carried out.
  work = ownWork(work, [step('target', 'skipped')], factsOf({ target: holding('T101') }));
  expect(['T101', 'made100'].filter(known)).toEqual(['T101', 'made100']);
});

describe('ownWork()', () => {
  const now = factsOf({ signer: holding('S2'), bundle: holding('S1'), target: holding('T1') });

  it('lasts while steps fail', () => {
    const later = ownWork(half, [step('bundle', 'failed', 'S2', 'S1'), step('target', 'skipped')], now);
    expect(waiting(later, now)).toEqual([]);
  });

  it('ends when all steps are written', () => {
    const done = ownWork(half, [step('bundle', 'written', 'S2', 'S1'), step('target', 'written', 'T2')], now);
    expect(waiting(done, now)).toEqual(['signer', 'bundle', 'target']);
  });

  it('is remembered for what could not be read', () => {
    const away = factsOf({
      signer: { state: 'unavailable', message: '' },
      bundle: holding('S1'),
      target: holding('T1'),
    });
    expect(waiting(ownWork(half, [], away), now)).toEqual(['bundle', 'target']);
  });
});
