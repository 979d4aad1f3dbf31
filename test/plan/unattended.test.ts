import { expect, it } from 'vitest';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { plan } from '../../lib/plan/plan.ts';
import { at, certificate, present, start, theirs } from '../support/facts.ts';

it('an original that was read before its copy was followed by another of us takes nothing valid from the copy', () => {
  const copy: ResolvedArtefact = {
    kind: 'copy',
    name: 'copy',
    truth: { kind: 'configMap', namespace: 'ours', name: 'copy' },
    readers: [],
    of: 'theirs',
  };
  const resolved: Resolved = { name: 'given', artefacts: [theirs, copy] };
  const old = certificate('old-ca', [-10, 300], { isCa: true });
  const next = certificate('next-ca', [-1, 300], { isCa: true });
  const { decisions } = plan({
    resolved,
    facts: new Map([
      ['theirs', { ...present(old), since: at(-1) }],
      ['copy', { ...present(old, next), since: start }],
    ]),
    policy: { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 },
    clock: { builtAt: at(-400), synchronised: true },
    now: start,
    unattended: true,
  });
  expect(decisions.find(({ artefact }) => artefact === 'copy')).toMatchObject({ action: 'keep', reason: 'Settling' });
});
