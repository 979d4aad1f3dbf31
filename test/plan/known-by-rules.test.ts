// Whether a file of CA certificates holds those of the servers and clients whom its readers meet.
import { describe, expect, it } from 'vitest';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import type { ArtefactFacts, Facts } from '../../lib/plan/facts.ts';
import { decisionsOf } from '../support/decisions.ts';
import { certificate, present, signer, target } from '../support/facts.ts';

const file = '/etc/kubernetes/etcd-ca.crt';
const bundle = {
  kind: 'external',
  name: 'their-file',
  location: { kind: 'pemFile', file },
  readers: [],
} satisfies ResolvedArtefact;
const knownBy = [{ component: 'kube-apiserver', flag: 'etcd-cafile' }];
const ca = certificate('ca', [-10, 300], { isCa: true });
const other = certificate('other', [-10, 300], { isCa: true });
const leafOf = (by: string, days: readonly [number, number] = [-10, 20]) =>
  present(certificate('leaf', days, { signedBy: [by] }));
const served = { ...target, knownBy };

function heldBy(
  held: ArtefactFacts,
  leaf: ArtefactFacts,
  { row = served, flags = ['kube-apiserver --etcd-cafile'] }: { row?: ResolvedArtefact; flags?: string[] } = {},
): string {
  const resolved: Resolved = { name: 'test', artefacts: [signer, bundle, row], flagsByFile: { [file]: flags } };
  const facts: Facts = new Map([
    ['signer', present(ca)],
    ['their-file', held],
    ['target', leaf],
  ]);
  const found = decisionsOf({ resolved, facts })['their-file'];
  return `${found?.byHand === true ? 'by hand' : 'kept'}: ${found?.message}`;
}

describe('a file of CA certificates', () => {
  const lacking = /^by hand: .*kube-apiserver --etcd-cafile must know target: .*certificate of signer/;
  it.each<readonly [string, ArtefactFacts, ArtefactFacts, RegExp]>([
    ['with the CA of the server that its reader meets', present(ca), leafOf('ca'), /^kept/],
    ['with it among others', present(other, ca), leafOf('ca'), /^kept/],
    ['without it', present(other), leafOf('ca'), lacking],
    ['without it, where the server gets a new certificate', present(other), leafOf('ca', [-20, -1]), lacking],
    ['without it, where the certificate of the server is lost', present(other), { state: 'absent' }, lacking],
    ['with the CA that will sign what a former one has signed', present(ca), leafOf('former'), /^kept/],
    ['whose server cannot be read', present(other), { state: 'unavailable', message: 'EIO' }, /^kept/],
  ])('%s', (_title, held, leaf, expected) => {
    expect(heldBy(held, leaf)).toMatch(expected);
  });

  it('may be anything for a flag that meets somebody else', () => {
    expect(heldBy(present(other), leafOf('ca'), { flags: ['kube-apiserver --oidc-ca-file'] })).toMatch(/^kept/);
  });

  it('must hold the CA of a server that is left to others', () => {
    const row: ResolvedArtefact = { ...served, mayBeOfOthers: true };
    expect(heldBy(present(other), leafOf('other'), { row })).toMatch(/^kept/);
    expect(heldBy(present(ca), leafOf('other'), { row })).toMatch(/^by hand/);
  });
});
