// Machines of the real kubeadm whose components are told of files of their own: in manifests, in the unit of the kubelet, in
// configurations and in the environment. The program runs there with that machine's /etc and /var.
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../../../lib/clock.ts';
import { type ComponentName, componentNames, staticPods } from '../../../lib/components.ts';
import { discoverEnvironment } from '../../../lib/inventory/discover/discover.ts';
import { configurationFields, fileFlags, type FileRole } from '../../../lib/inventory/file-flags.ts';
import type { Resolved } from '../../../lib/inventory/model.ts';
import { withFiles } from '../../../lib/inventory/places.ts';
import { loadPreset } from '../../../lib/inventory/preset.ts';
import { resolve } from '../../../lib/inventory/resolve.ts';
import { createDiskStore } from '../../../lib/store/disk-store.ts';
import { parseYaml, toYaml } from '../../../lib/yaml.ts';
import { expire } from './expire.ts';
import type { KubeadmMachine, Outcome } from './kubeadm-machine.ts';
import { asRoot, unseen } from './namespaces.ts';

const program = fileURLToPath(new URL('../../../dist/app/main.mjs', import.meta.url));

export const ownDirectory = '/etc/kubernetes/own';

export interface OwnFile {
  readonly component: ComponentName;
  readonly flag: string;
  readonly role: FileRole;
  readonly file: string;
}

/** Files that hold a certificate, each at a place of its own. */
export const ownFiles = (holds: readonly FileRole['holds'][]): readonly OwnFile[] =>
  componentNames.flatMap((component) =>
    Object.entries(fileFlags[component]).flatMap(([flag, role]) => {
      if (!holds.includes(role.holds)) return [];
      const ending = role.holds === 'kubeconfig' || role.holds === 'webhook' ? 'conf' : 'crt';
      return [{ component, flag, role, file: `${ownDirectory}/${component}/${flag}.${ending}` }];
    }),
  );

const keyFileOf = (file: string): string => file.replace(/\.crt$/, '.key');

/** The words by which a component is told of a file and its key. */
const wordsOf = ({ flag, role, file }: OwnFile): readonly string[] => {
  if (role.holds === 'pair' && role.keyFlag === undefined) return [`--${flag}=${file},${keyFileOf(file)}`];
  const key = 'keyFlag' in role && role.keyFlag !== undefined ? [`--${role.keyFlag}=${keyFileOf(file)}`] : [];
  return [`--${flag}=${file}`, ...key];
};

/** Roles that only a field of a configuration or a variable of the environment names, and no flag. */
const isFlag = ({ flag }: OwnFile): boolean =>
  !/^(egress-selector-c|admission-webhook-k|authorization-config-k|etcdctl-)/.test(flag);

export const placeBelow = (machine: KubeadmMachine, file: string): string => join(machine.root, file);

export async function putOwnFile(machine: KubeadmMachine, { component, role, file }: OwnFile): Promise<void> {
  await mkdir(dirname(placeBelow(machine, file)), { recursive: true });
  const pki = (name: string): string => machine.path('pki', name);
  if (role.holds === 'kubeconfig' || role.holds === 'webhook')
    return copyFile(machine.path('controller-manager.conf'), placeBelow(machine, file));
  const isEtcd = component === 'etcd' || file.includes('etcd-');
  const leaf =
    role.holds === 'pair' && role.usage !== 'client'
      ? isEtcd
        ? 'etcd/server'
        : 'apiserver'
      : isEtcd
        ? 'apiserver-etcd-client'
        : 'apiserver-kubelet-client';
  const source = role.holds === 'signer' ? pki('ca') : pki(leaf);
  await copyFile(`${source}.crt`, placeBelow(machine, file));
  await copyFile(`${source}.key`, placeBelow(machine, keyFileOf(file)));
}

type Nested = { [field: string]: unknown };

/** A configuration that has these values at its paths, `[]` for the only item of a list. */
function documentOf(fields: readonly (readonly [path: string, value: string])[], head: Nested): Nested {
  const document: Nested = { ...head };
  for (const [path, value] of fields) {
    const steps = path.split('.');
    let at = document;
    for (const [index, step] of steps.entries()) {
      const name = step.replace(/\[\]$/, '');
      if (index === steps.length - 1) at[name] = value;
      else if (step.endsWith('[]')) at = ((at[name] ??= [{}]) as Nested[])[0] ?? {};
      else at = (at[name] ??= {}) as Nested;
    }
  }
  return document;
}

const heads: Readonly<Record<string, Nested>> = {
  'kubelet config': { apiVersion: 'kubelet.config.k8s.io/v1beta1', kind: 'KubeletConfiguration' },
  'kube-scheduler config': { apiVersion: 'kubescheduler.config.k8s.io/v1', kind: 'KubeSchedulerConfiguration' },
};

/** Writes the configurations of a component whose fields name these files; their flags are returned. */
export async function configure(
  machine: KubeadmMachine,
  component: ComponentName,
  files: readonly OwnFile[],
): Promise<readonly string[]> {
  const words: string[] = [];
  const authority = '/etc/kubernetes/pki/etcd/ca.crt';
  for (const [flag, { fields }] of Object.entries(configurationFields[component] ?? {})) {
    const values = Object.entries(fields).flatMap(([path, name]): [string, string][] => {
      const file = files.find((one) => one.component === component && one.flag === name)?.file;
      const pair = files.find(
        ({ role, component: of }) => of === component && 'keyFlag' in role && role.keyFlag === name,
      )?.file;
      if (name === 'trusted-ca-file') return [[path, authority]];
      return file !== undefined ? [[path, file]] : pair === undefined ? [] : [[path, keyFileOf(pair)]];
    });
    if (values.length === 0) continue;
    const place = `${ownDirectory}/${component}/${flag}.yaml`;
    await mkdir(dirname(placeBelow(machine, place)), { recursive: true });
    await writeFile(placeBelow(machine, place), toYaml(documentOf(values, heads[`${component} ${flag}`] ?? {})));
    words.push(`--${flag}=${place}`);
  }
  return words;
}

/** Tells the components of these files: static pods in their manifests, the kubelet in its unit. */
export async function tellComponents(
  machine: KubeadmMachine,
  words: Readonly<Record<string, readonly string[]>>,
  env: readonly Nested[] = [],
): Promise<void> {
  for (const component of [...staticPods, 'etcd'] as const) {
    const file = machine.path(`manifests/${component}.yaml`);
    const text = await readFile(file, 'utf8').catch(() => undefined);
    if (text === undefined) continue;
    const manifest = structuredClone(parseYaml(text)) as {
      spec: { containers: { command: string[]; env?: Nested[] }[] };
    };
    const [container] = manifest.spec.containers;
    const added = words[component] ?? [];
    const names = added.map((word) => word.replace(/=.*/s, '='));
    if (container === undefined) throw new Error(`${component} has no container`);
    container.command = [...container.command.filter((word) => !names.some((name) => word.startsWith(name))), ...added];
    if (component === 'etcd') container.env = [...env];
    await writeFile(file, toYaml(manifest));
  }
  const unit = placeBelow(machine, '/etc/systemd/system/kubelet.service');
  await mkdir(dirname(unit), { recursive: true });
  const usual =
    words['kubelet']?.some((word) => word.startsWith('--kubeconfig=')) === true
      ? []
      : ['--kubeconfig=/etc/kubernetes/kubelet.conf'];
  await writeFile(
    unit,
    `[Service]\nEnvironment="ARGS=${[...usual, ...(words['kubelet'] ?? [])].join(' ')}"\nExecStart=/usr/bin/kubelet $ARGS\n`,
  );
}

/** As the program resolves it on this machine, for a test that sees it placeBelow its root. */
export async function resolvedBelow({ root }: KubeadmMachine): Promise<Resolved> {
  const inventory = loadPreset('kubeadm');
  const { environment } = await discoverEnvironment(inventory, {}, { root, addresses: () => ({}) });
  const resolved = resolve(inventory, environment);
  return {
    ...resolved,
    artefacts: resolved.artefacts.map((one) => ({
      ...one,
      location: withFiles(one.location, (file) => join(root, file)),
    })),
  };
}

export async function expireFlagged(machine: KubeadmMachine, signers: (file: string) => boolean): Promise<Resolved> {
  const resolved = await resolvedBelow(machine);
  const store = createDiskStore();
  const there = await Promise.all(
    resolved.artefacts.map(({ location }) => store.read(location, AbortSignal.timeout(60_000))),
  );
  const artefacts = resolved.artefacts.filter((_, at) => there[at] !== undefined && there[at]?.problem === undefined);
  await expire({
    // Those of no declaration have their names from what is there.
    resolved: {
      ...resolved,
      artefacts: artefacts.map((one) =>
        one.kind !== 'target'
          ? one
          : {
              commonName: 'system:kube-controller-manager',
              issuer: 'ca',
              ...one,
              hostnames: [...one.hostnames, 'localhost'],
            },
      ),
    },
    store,
    now: systemClock.now(),
    agoMs: 30_000,
    lifeMs: 60_000,
    except: ({ kind, location }) =>
      kind !== 'target' && !(kind === 'signer' && location.kind === 'pemPair' && signers(location.certFile)),
  });
  return resolved;
}

/** The program on a machine whose /etc and /var these are. */
export async function runOn(machine: KubeadmMachine, ...args: readonly string[]): Promise<Outcome> {
  const config = join(machine.root, 'etc/recovery.yaml');
  const regen = { backupDir: '/var/lib/backups', lockDir: '/var/lib/lock' };
  await mkdir(join(machine.root, 'var/lib'), { recursive: true });
  await writeFile(
    config,
    `apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: kubeadm\nregen: ${JSON.stringify(regen)}\n`,
  );
  const script = 'mount --bind "$0/etc" /etc && mount --bind "$0/var" /var && exec "$@"';
  const command = ['sh', '-c', script, machine.root, process.execPath, program, ...args, '--config=/etc/recovery.yaml'];
  return new Promise((done) => {
    execFile(
      'unshare',
      [...asRoot, '--mount', '--net', ...unseen, ...command],
      { maxBuffer: 1 << 24 },
      (err, stdout, stderr) => {
        done({ stdout, stderr, code: err === null ? 0 : typeof err.code === 'number' ? err.code : -1 });
      },
    );
  });
}

export async function holdsValid(machine: KubeadmMachine, { role, file }: OwnFile): Promise<boolean> {
  const text = await readFile(placeBelow(machine, file), 'utf8');
  const pem =
    role.holds === 'kubeconfig' ? Buffer.from(/client-certificate-data: (\S+)/.exec(text)?.[1] ?? '', 'base64') : text;
  return new X509Certificate(pem).validToDate > systemClock.now();
}

export const wordsByComponent = (files: readonly OwnFile[]): Record<string, readonly string[]> =>
  Object.fromEntries(
    [...Map.groupBy(files, ({ component }) => component)].map(([component, all]) => [component, all.flatMap(wordsOf)]),
  );

/** Tells components of all these files, by flags, by fields of configurations and by variables of etcd's environment. */
export async function tellOf(machine: KubeadmMachine, files: readonly OwnFile[]): Promise<void> {
  const words = wordsByComponent(files.filter(isFlag));
  const others = files.filter((one) => !isFlag(one));
  const configured = await configure(machine, 'kube-apiserver', others);
  words['kube-apiserver'] = [...(words['kube-apiserver'] ?? []), ...configured];
  const variable = (name: string, flag: string, placeOf = (file: string): string => file): Nested[] =>
    others.filter((one) => one.flag === flag).map(({ file }) => ({ name, value: placeOf(file) }));
  await tellComponents(machine, words, [
    ...variable('ETCDCTL_CERT', 'etcdctl-cert'),
    ...variable('ETCDCTL_KEY', 'etcdctl-cert', keyFileOf),
    ...variable('ETCDCTL_CACERT', 'etcdctl-cacert'),
  ]);
}
