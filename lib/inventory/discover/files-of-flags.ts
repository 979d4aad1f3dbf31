// The files of this machine that flags of its components name, each with its role, and who has signed what is there.
import { posix } from 'node:path';
import { componentNames } from '../../components.ts';
import { readKubeconfigView } from '../../kubeconfig/document.ts';
import { type Certificate, wholeCertificates } from '../../pki/certificate.ts';
import { signatureMatches } from '../../pki/verify.ts';
import { fileFlags, type FileRole } from '../file-flags.ts';
import type { NamedFile } from '../flag-entries.ts';
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
    case 'kubeconfig':
    case 'webhook': {
      const file = at(last);
      return file === undefined ? [] : [{ file }];
    }
    case 'tokenKey':
      return all.flatMap((path) => at(path) ?? []).map((file) => ({ file }));
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

/** Impure: it reads certificates, and nothing else. With the signer of the inventory whose key has signed each of them. */
export async function withIssuers(
  named: readonly NamedFile[],
  { artefacts, files }: SignersHere,
): Promise<readonly NamedFile[]> {
  const certificatesIn = async (file: string): Promise<readonly Certificate[]> =>
    wholeCertificates(Buffer.from((await files.text(file)) ?? ''));
  const signers = await Promise.all(
    artefacts.map(async ({ kind, name, location }) => ({
      name,
      certificates: kind === 'signer' && location.kind === 'pemPair' ? await certificatesIn(location.certFile) : [],
    })),
  );
  const signerOf = (leaf: Certificate | undefined): string | undefined =>
    leaf && signers.find(({ certificates }) => certificates.some((one) => signatureMatches(leaf, one)))?.name;
  return Promise.all(
    named.map(async (one): Promise<NamedFile> => {
      const { role, file } = one;
      if (role.holds === 'pair' || role.holds === 'directory')
        return { ...one, issuer: signerOf((await certificatesIn(file))[0]) };
      if (role.holds !== 'kubeconfig' && role.holds !== 'webhook') return one;
      const view = readKubeconfigView(file, Buffer.from((await files.text(file)) ?? ''), {});
      const held = 'certificate' in view ? view.certificate : undefined;
      // A token, or nothing: a webhook may take whoever comes.
      if (role.holds === 'webhook') return held?.kind === 'none' ? { ...one, role: { holds: 'nothing' } } : one;
      if (held === undefined || held.kind === 'none') return one;
      const found = held.kind === 'file' ? certificatesIn(held.file) : wholeCertificates(held.bytes ?? Buffer.of());
      return { ...one, issuer: signerOf((await found)[0]) };
    }),
  );
}
