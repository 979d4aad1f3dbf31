// The files of this machine that flags of its components name, each with its role, and who has signed what is there.
import { posix } from 'node:path';
import { componentNames } from '../../components.ts';
import { readKubeconfigView } from '../../kubeconfig/document.ts';
import { type Certificate, wholeCertificates } from '../../pki/certificate.ts';
import { signatureMatches } from '../../pki/verify.ts';
import { fileFlags, type FileRole } from '../file-flags.ts';
import type { NamedFile } from '../flag-entries.ts';
import { pathHere, type PlacesHere } from '../located.ts';
import type { Artefact } from '../model.ts';
import { type ComponentSettings, hostPathOf } from './component-settings.ts';
import type { MachineFiles } from './machine-files.ts';
import { keyBeside, type SettingsHere } from './named-files.ts';

/** Pure. `moved`: the place on this machine of a path that a flag names. */
export function filesOfFlags(settings: SettingsHere, moved: (path: string) => string): readonly NamedFile[] {
  return componentNames.flatMap((component) => {
    const here = settings[component];
    if (here === undefined) return [];
    return Object.entries(fileFlags[component]).flatMap(([flag, role]) =>
      placesOf(flag, role, here).map(({ file, keyFile }): NamedFile => ({
        component,
        flag,
        role,
        file: moved(file),
        ...(keyFile !== undefined && { keyFile: moved(keyFile) }),
      })),
    );
  });
}

interface NamedPlace {
  readonly file: string;
  readonly keyFile?: string;
}

function placesOf(flag: string, role: FileRole, { values, mounts }: ComponentSettings): readonly NamedPlace[] {
  const all = values.get(flag) ?? [];
  const at = (path: string | undefined): string | undefined => hostPathOf(path, mounts);
  const pair = (certificate: string | undefined, key: string | undefined): readonly NamedPlace[] => {
    const file = at(certificate);
    return file === undefined ? [] : [{ file, keyFile: at(key) ?? keyBeside(file) }];
  };
  // Of most flags the last value counts (pflag).
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
    case 'kubeconfig': {
      const file = at(last);
      return file === undefined ? [] : [{ file }];
    }
    case 'configuration':
    case 'key':
    case 'nothing':
      return [];
  }
}

export interface SignersHere {
  readonly artefacts: readonly Artefact[];
  readonly places: PlacesHere;
  readonly files: Pick<MachineFiles, 'text'>;
}

/** Impure: it reads certificates, and nothing else. With the signer of the inventory whose key has signed each of them. */
export async function withIssuers(
  named: readonly NamedFile[],
  { artefacts, places, files }: SignersHere,
): Promise<readonly NamedFile[]> {
  const certificatesIn = async (file: string): Promise<readonly Certificate[]> =>
    wholeCertificates(Buffer.from((await files.text(file)) ?? ''));
  const signers = await Promise.all(
    artefacts.map(async ({ kind, name, location }) => ({
      name,
      certificates:
        kind === 'signer' && location.kind === 'pemPair'
          ? await certificatesIn(pathHere(location.certFile, places))
          : [],
    })),
  );
  const leafIn = async ({ role, file }: NamedFile): Promise<Certificate | undefined> => {
    if (role.holds === 'pair' || role.holds === 'directory') return (await certificatesIn(file))[0];
    if (role.holds !== 'kubeconfig') return undefined;
    const view = readKubeconfigView(file, Buffer.from((await files.text(file)) ?? ''), {});
    if (!('certificate' in view) || view.certificate.kind === 'none') return undefined;
    const { certificate } = view;
    return certificate.kind === 'file'
      ? (await certificatesIn(certificate.file))[0]
      : wholeCertificates(certificate.bytes ?? Buffer.of())[0];
  };
  return Promise.all(
    named.map(async (one): Promise<NamedFile> => {
      const leaf = await leafIn(one);
      const issuer =
        leaf && signers.find(({ certificates }) => certificates.some((each) => signatureMatches(leaf, each)));
      return { ...one, issuer: issuer?.name };
    }),
  );
}
