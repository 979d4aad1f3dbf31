// An intermediate signer: judged after the bundle that holds its issuer, or together with it in one bundle.
import { describe, expect, it } from 'vitest';
import { topologicalOrder } from '../../lib/inventory/order.ts';
import type { CaBundle, ResolvedArtefact, Signer } from '../../lib/inventory/model.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import { plan } from '../../lib/plan/plan.ts';
import type { Plan } from '../../lib/plan/plan.ts';
import { at, bundle, ca, certificate, onlyWhenExpired, present, signer, start } from '../support/facts.ts';

const middle: Signer = {
  ...signer,
  name: 'middle',
  location: { ...signer.location, name: 'middle' },
  issuer: 'signer',
};
const middleBundle: CaBundle = {
  ...bundle,
  name: 'middle-bundle',
  location: { ...bundle.location, name: 'middle-bundle' },
  signers: ['middle'],
};
const both: CaBundle = { ...bundle, signers: ['signer', 'middle'] };
const root = ca('ca', [-1, 59]);
const below = certificate('middle', [-1, 29], { isCa: true, signedBy: ['ca'] });

function planned(artefacts: readonly ResolvedArtefact[], facts: Map<string, ArtefactFacts>, now = start): Plan {
  const { ordered } = topologicalOrder(artefacts);
  return plan({
    resolved: { name: 'test', artefacts: ordered },
    facts,
    policy: onlyWhenExpired,
    clock: { builtAt: at(-100), synchronised: true },
    now,
  });
}

describe('plan() of an intermediate signer', () => {
  const shapes: Record<
    string,
    { readonly artefacts: readonly ResolvedArtefact[]; readonly facts: () => Map<string, ArtefactFacts> }
  > = {
    'in a bundle of its own': {
      artefacts: [middleBundle, middle, bundle, signer],
      facts: () =>
        new Map<string, ArtefactFacts>([
          ['signer', present(root)],
          ['bundle', present(root)],
          ['middle', present(below)],
          ['middle-bundle', present(below)],
        ]),
    },
    'in one bundle with its issuer': {
      artefacts: [both, middle, signer],
      facts: () =>
        new Map<string, ArtefactFacts>([
          ['signer', present(root)],
          ['middle', present(below)],
          ['bundle', present(root, below)],
        ]),
    },
  };

  it.each(Object.keys(shapes))('keeps all when it is healthy: %s', (name) => {
    const { artefacts, facts } = shapes[name] ?? { artefacts: [], facts: () => new Map() };
    const { decisions } = planned(artefacts, facts());
    expect(decisions.map(({ action, reason }) => [action, reason])).toEqual(artefacts.map(() => ['keep', 'Healthy']));
  });

  it.each(Object.keys(shapes))('renews it alone when it alone has expired: %s', (name) => {
    const { artefacts, facts } = shapes[name] ?? { artefacts: [], facts: () => new Map() };
    const { decisions } = planned(artefacts, facts(), at(30));
    const middleDecision = decisions.find(({ artefact }) => artefact === 'middle');
    expect(middleDecision).toMatchObject({ action: 'renew', reason: 'Expired', after: [] });
    expect(decisions.find(({ artefact }) => artefact === 'signer')).toMatchObject({ action: 'keep' });
  });

  it.each(Object.keys(shapes))('renews everything when everything has expired: %s', (name) => {
    const { artefacts, facts } = shapes[name] ?? { artefacts: [], facts: () => new Map() };
    const { decisions } = planned(artefacts, facts(), at(3650));
    expect(decisions.map(({ action }) => action)).toEqual(artefacts.map(() => 'renew'));
    expect(decisions.find(({ artefact }) => artefact === 'middle')?.after).toContain('signer');
  });
});
