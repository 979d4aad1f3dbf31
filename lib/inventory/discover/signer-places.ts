// The places of signers. A CA flag names the certificates that a component trusts, which may be a copy or a bundle of
// several CAs: a signer is where its key is.
import { join } from 'node:path';
import { signatureMatches } from '../../pki/verify.ts';
import type { Certificate } from '../../pki/certificate.ts';
import type { FileOfFlag } from '../file-flags.ts';
import { namedFileOf, pathHere, type PlacesHere } from '../places.ts';
import type { Artefact, Inventory } from '../model.ts';
import { certificatesIn, heldByKubeconfig, isOnMachine, type MachineFiles } from './machine-files.ts';
import { keyBeside, type NamedFiles } from './named-files.ts';

/** Absolute paths on this machine. */
interface SignerPlace {
  readonly certFile: string;
  readonly keyFile: string;
}

/** The places where a signer may be, the place of its own flag first. */
interface SignerChoice {
  /** Names in the inventory of its certificate file and its key file. */
  readonly names: SignerPlace;
  readonly places: readonly [SignerPlace, ...SignerPlace[]];
}

interface Leads {
  readonly named: NamedFiles;
  /** The files that flags name, at their places on this machine. */
  readonly flags: readonly FileOfFlag[];
  /** The place on this machine of a path of the inventory. */
  readonly usual: (path: string) => string;
}

/** Returns signers that may be in several places. Pure. */
export function signerChoices(
  declared: Inventory['files'] = {},
  { named, flags, usual }: Leads,
): readonly SignerChoice[] {
  return Object.entries(declared).flatMap(([keyName, { keyOf: certName = '', default: usualKey }]): SignerChoice[] => {
    const [certFile, keyFile, file] = [named[certName], named[keyName], declared[certName]];
    if (typeof certFile !== 'string' || typeof keyFile !== 'string') return [];
    const own = { certFile, keyFile };
    const others = (file?.alsoNamedBy ?? []).flatMap(({ component, flag }): SignerPlace[] =>
      flags
        .filter((one) => one.component === component && one.flag === flag)
        .map((one) => ({ certFile: one.file, keyFile: one.keyFile ?? keyBeside(one.file) })),
    );
    if (file?.default !== undefined && usualKey !== undefined)
      others.push({ certFile: usual(file.default), keyFile: usual(usualKey) });
    const isSame = (one: SignerPlace, other: SignerPlace): boolean =>
      one.certFile === other.certFile && one.keyFile === other.keyFile;
    const further = others.filter(
      (one, at) => !isSame(one, own) && others.findIndex((other) => isSame(one, other)) === at,
    );
    if (further.length === 0) return [];
    return [{ names: { certFile: certName, keyFile: keyName }, places: [own, ...further] }];
  });
}

/** A place, and the evidence for it. */
interface SeenPlace {
  readonly place: SignerPlace;
  readonly hasKey: boolean;
  /** Its file begins with a leaf certificate, whose chain may follow: the key belongs to the leaf. */
  readonly isLeaf: boolean;
  /** The number of present certificates that a certificate there has signed. */
  readonly signed: number;
}

/**
 * Returns the place with a key whose certificate has signed most, the first of equals. Pure. The flag counts where no
 * key is at hand, or where only the CA that it names has signed the present certificates: then the key is on another
 * machine.
 */
export function signingPlace([flagged, ...others]: readonly [SeenPlace, ...SeenPlace[]]): SignerPlace {
  const [best] = [flagged, ...others]
    .filter(({ hasKey, isLeaf }) => hasKey && !isLeaf)
    .toSorted((one, other) => other.signed - one.signed);
  return best === undefined || (best.signed === 0 && flagged.signed > 0) ? flagged.place : best.place;
}

interface Machine {
  readonly artefacts: readonly Artefact[];
  readonly places: PlacesHere;
  readonly files: Pick<MachineFiles, 'text'>;
  readonly root: string;
}

/** Returns these signers' files at their signing places. Impure: it reads certificates, and whether keys exist. */
export async function filesOfSigners(
  choices: readonly SignerChoice[],
  { artefacts, places: at, files, root }: Machine,
): Promise<Readonly<Record<string, string>>> {
  const found = choices.map(async ({ names, places }): Promise<Readonly<Record<string, string>>> => {
    const signers = artefacts
      .filter(({ location }) => location.kind === 'pemPair' && namedFileOf(location.certFile) === names.certFile)
      .map(({ name }) => name);
    const leaves = await Promise.all(
      artefacts
        .filter((one) => one.kind === 'target' && signers.includes(one.issuer ?? ''))
        .map((one) => leafOf(one, at, files)),
    );
    const seen = async (place: SignerPlace): Promise<SeenPlace> => {
      const certificates = await certificatesIn(place.certFile, files.text);
      return {
        place,
        hasKey: await isOnMachine(join(root, place.keyFile)),
        isLeaf: certificates[0]?.facts.isCa === false,
        signed: leaves.flat().filter((leaf) => certificates.some((one) => signatureMatches(leaf, one))).length,
      };
    };
    const [first, ...others] = places;
    const { certFile, keyFile } = signingPlace([await seen(first), ...(await Promise.all(others.map(seen)))]);
    return { [names.certFile]: certFile, [names.keyFile]: keyFile };
  });
  return Object.assign({}, ...(await Promise.all(found))) as Readonly<Record<string, string>>;
}

async function leafOf(
  { location }: Artefact,
  places: PlacesHere,
  { text }: Machine['files'],
): Promise<readonly Certificate[]> {
  if (location.kind === 'pemPair') return (await certificatesIn(pathHere(location.certFile, places), text)).slice(0, 1);
  if (location.kind !== 'kubeconfig') return [];
  const leaf = (await heldByKubeconfig(pathHere(location.file, places), text))?.leaf;
  return leaf === undefined ? [] : [leaf];
}
