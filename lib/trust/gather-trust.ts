// Facts about the trust of this machine: settings of its components, and the files that they and its kubeconfigs name.
// Impure: it reads files, and nothing else. Never fails because of a file.
import { basename, join } from 'node:path';
import { type ComponentName, componentNames } from '../components.ts';
import { type Disk, realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { errorText, systemCode } from '../errors.ts';
import { readKubeconfigView } from '../kubeconfig/document.ts';
import { hostPathOf, type PathContext } from '../inventory/discover/component-settings.ts';
import { filesOfFlags, unreadSettings } from '../inventory/discover/files-of-flags.ts';
import { readerBelow } from '../inventory/discover/machine-files.ts';
import { addressesHere } from '../inventory/discover/machine-addresses.ts';
import type { SettingsHere } from '../inventory/discover/named-files.ts';
import { settingsHere } from '../inventory/discover/settings-here.ts';
import { type FileOfFlag, flagName } from '../inventory/file-flags.ts';
import { parseCertificates } from '../pki/certificate.ts';
import { type FileHere, type KubeconfigHere, type TrustFacts } from './trust-facts.ts';

export interface TrustPlace {
  readonly kubernetesDir: string;
  readonly kubeletDir: string;
  /** Place on this machine of a path that a flag names. */
  readonly moved: (path: string) => string;
  readonly without?: ReadonlySet<string>;
  /** Where certificates, keys and kubeconfigs lie; settings are always this machine's. Default: there, too. */
  readonly disk?: Disk | undefined;
}

export interface GatheredTrust {
  readonly facts: TrustFacts;
  /** A sentence for each place that exists and could not be read, and for each setting that leads nowhere. */
  readonly notes: readonly string[];
}

export async function gatherTrust(place: TrustPlace): Promise<GatheredTrust> {
  const { kubernetesDir, kubeletDir, moved, without = new Set<string>(), disk = realDisk } = place;
  const machine = readerBelow('/');
  const { pods, settings: told } = await settingsHere(
    { kubernetesDir, kubeletDir, root: '/', added: 'counted' },
    machine,
  );
  const files = new Map<string, FileHere>();
  const read = async (file: string): Promise<void> => {
    if (!files.has(file)) files.set(file, await fileAt(file, disk));
  };
  const settings = await withServingPair(told, join(kubeletDir, 'pki'), async (file) => {
    await read(moved(file));
    return files.get(moved(file))?.unread === undefined;
  });
  const named = filesOfFlags(settings, moved);
  for (const { file, keyFile = file } of named) await Promise.all([read(file), read(keyFile)]);
  const kubeconfigs: KubeconfigHere[] = [];
  for (const { file, name, isOptional, inside, around } of kubeconfigsTold(settings, named, kubernetesDir)) {
    await read(file);
    const { bytes, unread } = files.get(file) ?? {};
    if (unread === absent && isOptional) continue;
    const reading = bytes === undefined ? undefined : readKubeconfigView(inside ?? file, bytes, {});
    // Its holder reads the files that it names, too, so their paths are those of its container.
    const placed = (path: string): string => moved(around === undefined ? path : (hostPathOf(path, around) ?? path));
    kubeconfigs.push({ name, file, reading: withPlaces(reading, placed) });
  }
  for (const { reading } of kubeconfigs) {
    if (reading === undefined || !('user' in reading)) continue;
    for (const source of [reading.certificate, reading.key, reading.authority])
      if (source.kind === 'file') await read(source.file);
  }
  const own = Object.values(addressesHere()).flat();
  const doubts = doubtsOf(pods.unread, settings);
  const facts = { settings, doubts, kubeconfigs, files, moved, own, without, servers: [], bundles: [] };
  const notes = [...machine.unread, ...pods.notes, ...unreadSettings(settings).map(({ message }) => message)];
  return { facts, notes: [...new Set(notes)] };
}

/** kubeadm's, of people and of the kubelet, whose unit may not be readable. */
const usualKubeconfigs = ['kubelet.conf', 'admin.conf', 'super-admin.conf'];

interface ToldKubeconfig {
  readonly file: string;
  readonly name: string;
  readonly isOptional: boolean;
  /** Its path for its component, and how the paths of that map to this host. */
  readonly inside?: string | undefined;
  readonly around?: PathContext | undefined;
}

/** Returns each file once. */
function kubeconfigsTold(
  settings: SettingsHere,
  named: readonly FileOfFlag[],
  kubernetesDir: string,
): readonly ToldKubeconfig[] {
  const ofFlags = named.flatMap(({ component, flag, role, file }): ToldKubeconfig[] => {
    if (role.holds !== 'kubeconfig') return [];
    const around = settings[component];
    const inside = around?.values.get(flag)?.at(-1);
    return [{ file, name: flagName({ component, flag }), isOptional: role.isOptional === true, inside, around }];
  });
  const usual = usualKubeconfigs.map((name) => ({ file: join(kubernetesDir, name), name, isOptional: true }));
  // Several flags of a component name one file; the first is its own.
  return [...Map.groupBy([...ofFlags, ...usual], ({ file }) => file).values()].flatMap(([first]) => first ?? []);
}

const absent = 'is absent';

async function fileAt(file: string, disk: Disk): Promise<FileHere> {
  try {
    return { bytes: await readRegularFile(disk, file) };
  } catch (err) {
    const code = systemCode(err);
    return { unread: code === 'ENOENT' || code === 'ENOTDIR' ? absent : `cannot be read: ${code ?? errorText(err)}` };
  }
}

/**
 * Adds the serving certificate that a kubelet has where no flag names one: requested from the API, else made by itself
 * (kubernetes/kubernetes: pkg/kubelet/certificate, cmd/kubelet/app/server.go).
 */
async function withServingPair(
  settings: SettingsHere,
  usualDirectory: string,
  isThere: (file: string) => Promise<boolean>,
): Promise<SettingsHere> {
  const { kubelet } = settings;
  if (kubelet === undefined || kubelet.values.has('tls-cert-file')) return settings;
  const directory = kubelet.values.get('cert-dir')?.at(-1) ?? usualDirectory;
  const requested = join(directory, 'kubelet-server-current.pem');
  const own = [join(directory, 'kubelet.crt'), join(directory, 'kubelet.key')] as const;
  const [cert, key] = (await isThere(requested)) ? [requested, requested] : own;
  if (!(await isThere(cert))) return settings;
  const values = new Map([...kubelet.values, ['tls-cert-file', [cert]], ['tls-private-key-file', [key]]]);
  return { ...settings, kubelet: { ...kubelet, values } };
}

/** Replaces the paths of files that a kubeconfig names. */
function withPlaces(reading: KubeconfigHere['reading'], placed: (path: string) => string): KubeconfigHere['reading'] {
  if (reading === undefined || !('user' in reading)) return reading;
  const { certificate, key, authority } = reading;
  const [cert, own, ca] = [certificate, key, authority].map((source) =>
    source.kind === 'file' ? { ...source, file: placed(source.file) } : source,
  );
  return { ...reading, certificate: cert ?? certificate, key: own ?? key, authority: ca ?? authority };
}

function doubtsOf(
  broken: readonly { readonly component: ComponentName; readonly message: string }[],
  settings: SettingsHere,
): TrustFacts['doubts'] {
  const hidden = unreadSettings(settings).filter(({ component }) => settings[component]?.isHidden === true);
  return Object.fromEntries(
    componentNames.flatMap((component) => {
      const found = [...broken, ...hidden].find((one) => one.component === component);
      return found === undefined ? [] : [[component, found.message]];
    }),
  );
}

/** Fingerprints of the certificates in a file. Throws MaterialInvalid, and errors of the file system. */
export async function fingerprintsIn(file: string): Promise<ReadonlySet<string>> {
  const certificates = parseCertificates(await readRegularFile(realDisk, file), `"${basename(file)}"`, 'skipped');
  return new Set(certificates.map(({ facts }) => facts.fingerprint));
}
