// The files of this machine that flags of its components name, each with its role, and the signer of its certificate.
import { posix } from 'node:path';
import { componentNames } from '../../components.ts';
import type { Certificate } from '../../pki/certificate.ts';
import { signatureMatches } from '../../pki/verify.ts';
import { fileFlags, type FileRole } from '../file-flags.ts';
import type { FileOfFlag } from '../flag-entries.ts';
import type { Artefact } from '../model.ts';
import { certificatesIn, heldByKubeconfig, type MachineFiles } from './machine-files.ts';
import { type ComponentSettings, hostPathOf } from './component-settings.ts';
import { keyBeside, type SettingsHere } from './named-files.ts';

/** Returns the files that flags name. Pure. `moved`: the place on this machine of a path that a flag names. */
export function filesOfFlags(settings: SettingsHere, moved: (path: string) => string): readonly FileOfFlag[] {
  return componentNames.flatMap((component) => {
    const here = settings[component];
    if (here === undefined) return [];
    return Object.entries(fileFlags[component]).flatMap(([flag, role]) =>
      placesOf(flag, role, here).map(({ file, keyFile, keyFlag }): FileOfFlag => ({
        component,
        flag,
        role,
        file: moved(file),
        ...(keyFile !== undefined && { keyFile: moved(keyFile) }),
        ...(keyFlag !== undefined && { keyFlag }),
      })),
    );
  });
}

interface NamedPlace {
  readonly file: string;
  readonly keyFile?: string;
  readonly keyFlag?: string;
}

function placesOf(flag: string, role: FileRole, settings: ComponentSettings): readonly NamedPlace[] {
  const { values } = settings;
  const all = values.get(flag) ?? [];
  const at = (path: string | undefined): string | undefined => hostPathOf(path, settings);
  const keyFlag = 'keyFlag' in role && role.keyFlag !== undefined ? role.keyFlag : flag;
  const pair = (certificate: string | undefined, key: string | undefined): readonly NamedPlace[] => {
    const file = at(certificate);
    const keyFile = at(key);
    if (file === undefined) return [];
    return [keyFile === undefined ? { file, keyFile: keyBeside(file) } : { file, keyFile, keyFlag }];
  };
  // The last value counts, except for flags that make a list (pflag).
  const last = all.at(-1);
  switch (role.holds) {
    case 'pair':
    case 'signer':
      if (role.keyFlag !== undefined) return pair(last, values.get(role.keyFlag)?.at(-1));
      // CERT,KEY or CERT,KEY:names (k8s.io/component-base cli/flag: NamedCertKey), each of its own.
      return all.flatMap((value) => {
        const [certificate, key] = value.split(':')[0]?.split(',') ?? [];
        return pair(certificate, key);
      });
    case 'directory': {
      const directory = at(last);
      if (directory === undefined || values.has('tls-cert-file')) return [];
      return [{ file: posix.join(directory, `${role.pair}.crt`), keyFile: posix.join(directory, `${role.pair}.key`) }];
    }
    case 'bundle':
    case 'kubeconfig':
    case 'webhook': {
      const file = at(last);
      return file === undefined ? [] : [{ file }];
    }
    case 'tokenKey':
      return (role.knownBy === undefined ? all : all.slice(-1))
        .flatMap((path) => at(path) ?? [])
        .map((file) => ({ file }));
    case 'configuration':
    case 'key':
    case 'nothing':
      return [];
  }
}

/** `artefacts`: with the places of their files on this machine. */
export interface SignersHere {
  readonly artefacts: readonly Artefact[];
  readonly files: Pick<MachineFiles, 'text'>;
}

/** Adds the signer of the inventory that has signed each certificate. Impure: it reads certificates only. */
export async function withIssuers(
  named: readonly FileOfFlag[],
  { artefacts, files }: SignersHere,
): Promise<readonly FileOfFlag[]> {
  const { text } = files;
  const signers = await Promise.all(
    artefacts.map(async ({ kind, name, location }) => ({
      name,
      certificates:
        kind === 'signer' && location.kind === 'pemPair' ? await certificatesIn(location.certFile, text) : [],
    })),
  );
  const signerOf = (leaf: Certificate | undefined): string | undefined =>
    leaf && signers.find(({ certificates }) => certificates.some((one) => signatureMatches(leaf, one)))?.name;
  return Promise.all(
    named.map(async (one): Promise<FileOfFlag> => {
      const { role, file } = one;
      switch (role.holds) {
        case 'pair':
        case 'directory':
          return { ...one, issuer: signerOf((await certificatesIn(file, text))[0]) };
        case 'kubeconfig':
          return { ...one, issuer: signerOf((await heldByKubeconfig(file, text))?.leaf) };
        case 'webhook':
          // A token, or nothing: a webhook may accept every client.
          return (await heldByKubeconfig(file, text))?.namesCertificate === false
            ? { ...one, role: { holds: 'nothing' } }
            : one;
        case 'bundle':
        case 'configuration':
        case 'key':
        case 'nothing':
        case 'signer':
        case 'tokenKey':
          return one;
      }
    }),
  );
}
