// The files of this machine that flags of its components name, each with its role, and the signer of its certificate; and
// the settings whose files are not known.
import { posix } from 'node:path';
import { componentNames } from '../../components.ts';
import type { Certificate } from '../../pki/certificate.ts';
import { signatureMatches } from '../../pki/verify.ts';
import { fileFlags, type FileOfFlag, type FileRole, flagName } from '../file-flags.ts';
import type { UnreadSettings } from '../flag-entries.ts';
import type { Artefact } from '../model.ts';
import { certificatesIn, heldByKubeconfig, type MachineFiles } from './machine-files.ts';
import { type ComponentSettings, hostPathOf, hostPlaceOf, type ValuesByFlag } from './component-settings.ts';
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

/** A path as a flag gives it, and that of its key. */
interface FlagPath {
  readonly path: string;
  readonly key?: string | undefined;
  /** The flag that names the key. */
  readonly keyFlag?: string;
}

/** Returns the effective paths of a flag: the last value counts, except for flags that make a list (pflag). */
function pathsOf(flag: string, role: FileRole, values: ValuesByFlag): readonly FlagPath[] {
  const all = values.get(flag) ?? [];
  const last = all.slice(-1).map((path): FlagPath => ({ path }));
  switch (role.holds) {
    case 'pair':
    case 'signer': {
      const { keyFlag } = role;
      if (keyFlag !== undefined) return last.map((one) => ({ ...one, key: values.get(keyFlag)?.at(-1), keyFlag }));
      // CERT,KEY or CERT,KEY:names (k8s.io/component-base cli/flag: NamedCertKey), each of its own.
      return all.map((value) => {
        const [path = '', key] = value.split(':')[0]?.split(',') ?? [];
        return { path, key, keyFlag: flag };
      });
    }
    case 'tokenKey':
      return role.knownBy === undefined ? all.map((path) => ({ path })) : last;
    case 'bundle':
    case 'configuration':
    case 'directory':
    case 'key':
    case 'kubeconfig':
    case 'webhook':
      return last;
    case 'nothing':
      return [];
  }
}

type NamedPlace = Pick<FileOfFlag, 'file' | 'keyFile' | 'keyFlag'>;

function placesOf(flag: string, role: FileRole, settings: ComponentSettings): readonly NamedPlace[] {
  // The key of a certificate has no entry of its own, and the files that a configuration names are settings.
  if (role.holds === 'key' || role.holds === 'configuration') return [];
  if (role.holds === 'directory' && settings.values.has('tls-cert-file')) return [];
  return pathsOf(flag, role, settings.values).flatMap(({ path, key, keyFlag }): readonly NamedPlace[] => {
    const file = hostPathOf(path, settings);
    if (file === undefined) return [];
    if (role.holds === 'directory')
      return [{ file: posix.join(file, `${role.pair}.crt`), keyFile: posix.join(file, `${role.pair}.key`) }];
    if (keyFlag === undefined) return [{ file }];
    const keyFile = hostPathOf(key, settings);
    return [keyFile === undefined ? { file, keyFile: keyBeside(file) } : { file, keyFile, keyFlag }];
  });
}

/**
 * Returns settings that name a file in a way that cannot be followed here. The file may expire unseen, so each of them is
 * reported for a person to act. Pure.
 */
export function unreadSettings(settings: SettingsHere): readonly UnreadSettings[] {
  return componentNames.flatMap((component): UnreadSettings[] => {
    const here = settings[component];
    if (here === undefined) return [];
    const messages = Object.entries(fileFlags[component]).flatMap(([flag, role]) =>
      // The key of a certificate behind a comma has no flag of its own.
      pathsOf(flag, role, here.values)
        .flatMap(({ path, key, keyFlag }) => (keyFlag === flag ? [path, key ?? ''] : path))
        .flatMap((path) => {
          const place = hostPlaceOf(path, here);
          // A component remakes the files in a directory of its own when its pod starts.
          if (place?.unknown === undefined || (role.holds === 'directory' && place.isInPod === true)) return [];
          return [
            `Cannot find the file of ${flagName({ component, flag })} on this machine: "${path}" ${place.unknown}; ` +
              `name it by an absolute path of this host in "${here.source}"`,
          ];
        }),
    );
    if (here.isHidden === true)
      messages.push(
        `Cannot find the flags of ${component} in "${here.source}": its command does not run ${component} by name, and ` +
          'what it starts is not read; name the files of its flags there',
      );
    return messages.length === 0
      ? []
      : [{ component, scope: 'settings', file: here.source, message: messages.join('; ') }];
  });
}

/** `artefacts`: with the places of their files on this machine. */
interface SignersHere {
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
