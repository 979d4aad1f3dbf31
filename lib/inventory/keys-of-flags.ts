// Keys that flags name and that are never written here: the key of a certificate whose pair in the inventory has
// another key, and the key that signs tokens of service accounts. With another key its component does not start, or no
// verifier accepts its signatures. Pure.
import type { ComponentName } from '../components.ts';
import type { FileOfFlag, FlagOf } from './file-flags.ts';
import type { Artefact } from './model.ts';
import { filesOf, isFile } from './places.ts';

/** A key, the files of which one must hold its public key, and the wanted key. */
interface NamedKey {
  readonly component: ComponentName;
  readonly flag: string;
  readonly keyFile: string;
  readonly knownIn: readonly [string, ...string[]];
  readonly keyWanted: string;
}

/** Returns the entries, and a key pair for each key of no entry. A signer gets the key that flags want of it. */
export function withKeysOfFlags(
  entries: readonly Artefact[],
  named: readonly FileOfFlag[],
  unusedName: (base: string) => string,
): readonly Artefact[] {
  const keys = named.flatMap((one) => keyOf(one, named));
  const others = keys.filter(
    (key, at) => !entries.some((entry) => isOwn(entry, key)) && keys.findIndex((one) => isSame(one, key)) === at,
  );
  return [
    ...entries.map((entry) => {
      const key = entry.kind === 'signer' ? keys.find((one) => isOwn(entry, one)) : undefined;
      return key === undefined ? entry : { ...entry, keyWanted: key.keyWanted };
    }),
    ...others.map((key) => pairOfKey(key, unusedName(`${key.component}-${key.flag}`))),
  ];
}

function keyOf(one: FileOfFlag, named: readonly FileOfFlag[]): readonly NamedKey[] {
  const { component, flag, role, file, keyFile, keyFlag } = one;
  if (role.holds === 'tokenKey' && role.knownBy !== undefined) return [tokenKeyOf(one, role.knownBy, named)];
  if (keyFile === undefined || keyFlag === undefined) return [];
  const place = keyFlag === flag ? '' : ` (--${flag})`;
  const keyWanted =
    `"${keyFile}" (${component} --${keyFlag}) must be the key of the certificate in "${file}"${place}: ` +
    'bring that key, or correct the flag';
  return [{ component, flag: keyFlag, keyFile, knownIn: [file], keyWanted }];
}

/** Returns the token key; where no flag here names its public keys, any key will do. */
function tokenKeyOf({ component, flag, file }: FileOfFlag, knownBy: FlagOf, named: readonly FileOfFlag[]): NamedKey {
  const files = named.flatMap((one) =>
    one.component === knownBy.component && one.flag === knownBy.flag ? one.file : [],
  );
  const [first = file, ...others] = new Set(files);
  const known = [first, ...others].map((path) => `"${path}"`).join(', ');
  const which =
    files.length === 0
      ? 'hold a private key'
      : `be the key of ${others.length === 0 ? '' : 'one of '}${known} (${knownBy.component} --${knownBy.flag})`;
  const keyWanted =
    `"${file}" (${component} --${flag}) must ${which}: copy it from another control plane of the cluster, or from a ` +
    'backup, or correct the flag; a new key would make every token invalid';
  return { component, flag, keyFile: file, knownIn: [first, ...others], keyWanted };
}

const isSame = (one: NamedKey, other: NamedKey): boolean =>
  one.keyFile === other.keyFile && one.knownIn.join('\0') === other.knownIn.join('\0');

/** Whether the entry has this very key in these files: then it is judged with the entry. */
function isOwn({ kind, location }: Artefact, { keyFile, knownIn }: NamedKey): boolean {
  if (!isFile(location) || !['signer', 'target', 'keyPair'].includes(kind)) return false;
  const files = filesOf(location).map(({ file }) => file);
  return [keyFile, ...knownIn].every((file) => files.includes(file));
}

function pairOfKey({ component, keyFile, knownIn: [first, ...others], keyWanted }: NamedKey, name: string): Artefact {
  const files = { privateKeyFile: keyFile, publicKeyFile: first };
  const pair = {
    kind: 'keyPair',
    name,
    location: { kind: 'keyFiles', ...files, ...(others.length > 0 && { otherPublicKeyFiles: others }) },
    privateKey: 'sa.key',
    publicKey: 'sa.pub',
    readers: [{ component, needs: 'nothing', proof: { kind: 'none' } }],
    keyWanted,
  } as const;
  return pair;
}

/**
 * Returns a target with the sharing of its files: flags may name the key of two certificates, two files for one key, or
 * certificate and key in one file. A new key would leave another certificate with the former one, or the
 * former key with the new certificate: then a renewal keeps the key.
 */
export function withSharedFiles(artefact: Artefact, named: readonly Pick<FileOfFlag, 'file' | 'keyFile'>[]): Artefact {
  if (artefact.kind !== 'target' || artefact.location.kind !== 'pemPair') return artefact;
  const { certFile, keyFile } = artefact.location;
  if (certFile === keyFile) return { ...artefact, location: { kind: 'combinedPem', file: certFile } };
  const isShared = named.some(
    (one) => one.keyFile !== undefined && (one.file === certFile) !== (one.keyFile === keyFile),
  );
  const shared = { ...artefact, sharesKey: true } as const;
  return isShared ? shared : artefact;
}
