// Holds back the consequences of a CA in files that is unknown to all leaves it should have signed
// (gather-unknown.ts): two files put back would repair that, while reissued leaves would be foreign to every other
// machine. A person decides which of the two is right. Pure.
import type { ResolvedArtefact, Signer } from '../inventory/model.ts';
import { filesOf, isFile } from '../inventory/places.ts';
import { bring, type Case, laterMs, lookAgainMs, type Verdict } from './decision.ts';
import { certificateOf, type UnknownAuthority } from './facts.ts';
import { nextCommand } from '../next-command.ts';

/** Returns the verdict that replaces the given one; undefined where that stands. */
export function heldByUnknown(at: Case, verdict: Verdict): Verdict | undefined {
  const { artefact, now } = at;
  const until = laterMs(now, lookAgainMs);
  const own = unknownOf(at, artefact);
  if (own !== undefined) return bring('SignerUnknown', own, until);
  const isOther = verdict.origin === 'fetch' || verdict.byHand === true || verdict.reason === 'Unavailable';
  if (verdict.action === 'keep' || isOther) return undefined;
  const signer = sourcesOf(artefact, at.resolved.artefacts).find((one) => unknownOf(at, one) !== undefined);
  if (signer === undefined) return undefined;
  const state = `${signer.name} is another CA than the one that has signed what is here`;
  return bring('SignerUnknown', `${verdict.message}; ${state}, see there`, until);
}

/** Returns the message about such a signer; undefined for any other signer, and for an accepted one. */
function unknownOf({ facts, policy, resolved }: Case, artefact: ResolvedArtefact): string | undefined {
  const fact = facts.get(artefact.name);
  if (artefact.kind !== 'signer' || fact?.state !== 'present' || fact.unknownTo === undefined) return undefined;
  const certificate = certificateOf(fact);
  if (certificate === undefined || policy.acceptedAuthorities?.has(certificate.fingerprint) === true) return undefined;
  const here = `CA "${certificate.subject}" (${fingerprintText(certificate.fingerprint)})`;
  const accept = nextCommand('', {
    '--mode': 'regen',
    '--once': true,
    '--preset': resolved.name,
    '--accept-ca': fingerprintText(certificate.fingerprint),
  });
  const ways = `${wayBack(artefact, fact.unknownTo)}, or accept the CA that is here, so that they are reissued, with`;
  return `${here} ${differenceText(fact.unknownTo)}; ${ways} "${accept}"`;
}

function differenceText({ leaves, issuer, keyId, fingerprint, heldBy }: UnknownAuthority): string {
  const known = [
    ...(fingerprint === undefined ? [] : [fingerprintText(fingerprint)]),
    ...(keyId === undefined ? [] : [`key identifier ${keyId}`]),
    heldBy === undefined ? 'its certificate lies nowhere else here' : `its certificate lies in ${heldBy}`,
  ];
  const count = `${leaves.length} of ${leaves.length} certificates here (${leaves.join(', ')})`;
  return `differs from the one that has signed ${count}: that is "${issuer}" (${known.join('; ')})`;
}

/** Text of the way back. An expired copy replaces a valid certificate only with `--force`. */
function wayBack({ name, location }: Signer, { backup }: UnknownAuthority): string {
  const files = isFile(location) ? filesOf(location).map(({ file }) => file) : [];
  const back = `put ${files.join(' and ')} back`;
  const copied = `${back} with "${nextCommand(`restore ${name}`, { '--force': backup === 'expired' })}"`;
  switch (backup) {
    case 'valid':
      return `${copied}, which has a copy of both`;
    case 'expired':
      return `${copied}, which has a copy of both from before the CA was renewed: the next run renews it again`;
    case undefined:
      return `${back} from another control-plane machine of this cluster or a backup of this one`;
  }
}

/** Fingerprint in the form of `--accept-ca`. */
const fingerprintText = (fingerprint: string): string => `SHA256:${fingerprint}`;

/** Returns the signers of its next content: its issuer, or the signers of a bundle or a copy of CAs. */
function sourcesOf(artefact: ResolvedArtefact, artefacts: readonly ResolvedArtefact[]): readonly ResolvedArtefact[] {
  const named = (...names: readonly (string | undefined)[]): readonly ResolvedArtefact[] =>
    artefacts.filter(({ name }) => names.includes(name));
  switch (artefact.kind) {
    case 'signer':
    case 'target':
      return named(artefact.issuer);
    case 'caBundle':
      return named(...artefact.signers);
    case 'composedBundle':
      return named(...artefact.inputs).flatMap((one) => sourcesOf(one, artefacts));
    case 'copy':
      return named(artefact.of).flatMap((one) =>
        one.kind === 'signer' ? [one] : one.kind === 'target' ? [] : sourcesOf(one, artefacts),
      );
    case 'kubeconfigs':
    case 'keyPair':
    case 'external':
    case 'opaque':
      return [];
  }
}
