// Every flag of the components that names a file, as their own --help lists them, pointed to a file of its own that has expired:
// what is there is repaired or reported, never passed over.
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { type ComponentName, componentNames, staticPods } from '../../lib/components.ts';
import { discoverEnvironment } from '../../lib/inventory/discover/discover.ts';
import { configurationFields, fileFlags, type FileRole } from '../../lib/inventory/file-flags.ts';
import type { Resolved } from '../../lib/inventory/model.ts';
import { withFiles } from '../../lib/inventory/places.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { parseYaml, toYaml } from '../../lib/yaml.ts';
import { findBinaries } from '../support/cluster/binaries.ts';
import { expire } from '../support/cluster/expire.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { asRoot, unseen } from '../support/cluster/namespaces.ts';

const program = fileURLToPath(new URL('../../cmd/main.ts', import.meta.url));

/** Flags whose names or texts sound like a file and that name none. */
const noFiles: Readonly<Record<ComponentName, readonly string[]>> = {
  'kube-apiserver': [],
  'kube-controller-manager': ['authentication-skip-lookup', 'master'],
  'kube-scheduler': ['authentication-skip-lookup', 'master'],
  kubelet: ['register-node'],
  etcd: ['unsafe-no-fsync'],
};

interface HelpFlag {
  readonly name: string;
  readonly type: string;
  readonly text: string;
}

/** Flags of `--help`, of Kubernetes (pflag) and of etcd, whose texts stand on the line or below it. */
function flagsOfHelp(help: string): readonly HelpFlag[] {
  const flags: HelpFlag[] = [];
  for (const line of help.split('\n')) {
    const [, name, rest = ''] = /^\s+(?:-\w, )?--([a-z0-9-]+)(.*)$/.exec(line) ?? [];
    const last = flags.at(-1);
    if (name !== undefined) {
      const [, type = '', text = ''] = /^ ?(\S*)\s*(.*)$/.exec(rest) ?? [];
      flags.push({ name, type, text });
    } else if (last !== undefined && line.trim() !== '') {
      flags[flags.length - 1] = { ...last, text: `${last.text} ${line.trim()}` };
    }
  }
  return flags;
}

const soundsLikeFile = ({ name, type, text }: HelpFlag): boolean => {
  if (/^(int\d*|duration|float\S*|ip|mapStringString|mapStringBool|strings|colonSeparated\S*)$/.test(type))
    return false;
  return (
    /(^|-)(file|cafile|certfile|keyfile|kubeconfig|config|cert|key|cacert|path|dir|manifest|authority)$/.test(name) ||
    /\b(path|pathname) (to|of|for)\b|\bpath to\b|\bfile (containing|with|path)\b|\bkubeconfig\b/i.test(text)
  );
};

let whole: KubeadmMachine;
beforeAll(async () => {
  whole = await KubeadmMachine.create();
});
afterAll(() => whole?.[Symbol.asyncDispose]());

const own = '/etc/kubernetes/own';

interface OwnFile {
  readonly component: ComponentName;
  readonly flag: string;
  readonly role: FileRole;
  readonly file: string;
}

/** Files that hold a certificate, each at a place of its own. */
const ownFiles = (holds: readonly FileRole['holds'][]): readonly OwnFile[] =>
  componentNames.flatMap((component) =>
    Object.entries(fileFlags[component]).flatMap(([flag, role]) => {
      if (!holds.includes(role.holds)) return [];
      const ending = role.holds === 'kubeconfig' ? 'conf' : 'crt';
      return [{ component, flag, role, file: `${own}/${component}/${flag}.${ending}` }];
    }),
  );

const keyOf = (file: string): string => file.replace(/\.crt$/, '.key');

/** The words by which a component is told of a file and its key. */
const wordsOf = ({ flag, role, file }: OwnFile): readonly string[] => {
  if (role.holds === 'pair' && role.keyFlag === undefined) return [`--${flag}=${file},${keyOf(file)}`];
  const key = 'keyFlag' in role && role.keyFlag !== undefined ? [`--${role.keyFlag}=${keyOf(file)}`] : [];
  return [`--${flag}=${file}`, ...key];
};

/** Roles that only a field of a configuration or a variable of the environment names, and no flag. */
const isFlag = ({ flag }: OwnFile): boolean =>
  !/^(egress-selector-c|admission-webhook-k|authorization-config-k|etcdctl-)/.test(flag);

const below = (machine: KubeadmMachine, file: string): string => join(machine.root, file);

async function put(machine: KubeadmMachine, { component, role, file }: OwnFile): Promise<void> {
  await mkdir(dirname(below(machine, file)), { recursive: true });
  const pki = (name: string): string => machine.path('pki', name);
  if (role.holds === 'kubeconfig') return copyFile(machine.path('controller-manager.conf'), below(machine, file));
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
  await copyFile(`${source}.crt`, below(machine, file));
  await copyFile(`${source}.key`, below(machine, keyOf(file)));
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
async function configure(
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
      return file !== undefined ? [[path, file]] : pair === undefined ? [] : [[path, keyOf(pair)]];
    });
    if (values.length === 0) continue;
    const place = `${own}/${component}/${flag}.yaml`;
    await mkdir(dirname(below(machine, place)), { recursive: true });
    await writeFile(below(machine, place), toYaml(documentOf(values, heads[`${component} ${flag}`] ?? {})));
    words.push(`--${flag}=${place}`);
  }
  return words;
}

/** Tells the components of these files: static pods in their manifests, the kubelet in its unit. */
async function tell(
  machine: KubeadmMachine,
  words: Readonly<Record<string, readonly string[]>>,
  env: readonly Nested[] = [],
): Promise<void> {
  for (const component of [...staticPods, 'etcd'] as const) {
    const file = machine.path(`manifests/${component}.yaml`);
    const manifest = parseYaml(await readFile(file, 'utf8')) as {
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
  const unit = below(machine, '/etc/systemd/system/kubelet.service');
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

/** As the program resolves it on this machine, for a test that sees it below its root. */
async function resolvedBelow({ root }: KubeadmMachine): Promise<Resolved> {
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

async function expireAll(machine: KubeadmMachine, signers: (file: string) => boolean): Promise<Resolved> {
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
async function run(machine: KubeadmMachine, ...args: readonly string[]): Promise<Outcome> {
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

async function isValid(machine: KubeadmMachine, { role, file }: OwnFile): Promise<boolean> {
  const text = await readFile(below(machine, file), 'utf8');
  const pem =
    role.holds === 'kubeconfig' ? Buffer.from(/client-certificate-data: (\S+)/.exec(text)?.[1] ?? '', 'base64') : text;
  return new X509Certificate(pem).validToDate > systemClock.now();
}

const byComponent = (files: readonly OwnFile[]): Record<string, readonly string[]> =>
  Object.fromEntries(
    [...Map.groupBy(files, ({ component }) => component)].map(([component, all]) => [component, all.flatMap(wordsOf)]),
  );

describe('flags that name files', () => {
  it.each(componentNames)('are all known of %s', async (component) => {
    const binary = (await findBinaries([component])).get(component) ?? '';
    const { stdout, stderr } = await promisify(execFile)(binary, ['--help'], { maxBuffer: 1 << 24 });
    const found = flagsOfHelp(`${stdout}${stderr}`)
      .filter(soundsLikeFile)
      .map(({ name }) => name);
    expect(found.length).toBeGreaterThan(4);
    const unknown = found.filter(
      (name) => fileFlags[component][name] === undefined && !noFiles[component].includes(name),
    );
    expect([...new Set(unknown)]).toEqual([]);
  });

  it(
    'have each of their expired certificates, kubeconfigs and signing CAs renewed where its CA is here',
    { timeout: 120_000 },
    async () => {
      await using machine = await whole.copy();
      const files = ownFiles(['pair', 'signer', 'kubeconfig']);
      for (const one of files) await put(machine, one);
      const words = byComponent(files.filter(isFlag));
      const others = files.filter((one) => !isFlag(one));
      words['kube-apiserver'] = [
        ...(words['kube-apiserver'] ?? []),
        ...(await configure(machine, 'kube-apiserver', others)),
      ];
      const client = others.find(({ flag }) => flag === 'etcdctl-cert')?.file ?? '';
      await tell(machine, words, [
        { name: 'ETCDCTL_CERT', value: client },
        { name: 'ETCDCTL_KEY', value: keyOf(client) },
      ]);
      await expireAll(machine, (file) => file.includes(own));
      expect(await Promise.all(files.map((one) => isValid(machine, one)))).not.toContain(true);
      const { stderr } = await run(machine, '--mode=regen', '--once');
      const states = await Promise.all(files.map(async (one) => ({ ...one, valid: await isValid(machine, one) })));
      expect(
        states.filter(({ valid }) => !valid).map(({ file }) => file),
        stderr,
      ).toEqual([]);
      expect(files.length).toBeGreaterThan(25);
    },
  );

  it('have each CA bundle that has expired reported', { timeout: 120_000 }, async () => {
    await using machine = await whole.copy();
    await expireAll(machine, () => false);
    const files = ownFiles(['bundle']);
    for (const one of files) await put(machine, one);
    const words = byComponent(files.filter(isFlag));
    const others = files.filter((one) => !isFlag(one));
    words['kube-apiserver'] = [
      ...(words['kube-apiserver'] ?? []),
      ...(await configure(machine, 'kube-apiserver', others)),
    ];
    await tell(machine, words, [
      { name: 'ETCDCTL_CACERT', value: others.find(({ flag }) => flag === 'etcdctl-cacert')?.file ?? '' },
    ]);
    const { stderr, code } = await run(machine, '--mode=regen', '--once');
    expect(
      files.filter(({ file }) => !stderr.includes(file)).map(({ file }) => file),
      stderr,
    ).toEqual([]);
    expect(code, stderr).toBe(5);
    const { stdout } = await run(machine, 'status');
    expect(
      files.filter(({ component, flag }) => !stdout.includes(`${component} --${flag}`)).map(({ file }) => file),
    ).toEqual([]);
    expect(stdout).not.toContain('as it should be');
  });

  it.each(['kubelet', 'kube-scheduler', 'etcd'] as const)(
    'stand for the fields of the configuration of %s',
    async (component) => {
      await using machine = await whole.copy();
      const named = new Set(
        Object.values(configurationFields[component] ?? {}).flatMap(({ fields }) => Object.values(fields)),
      );
      const files = ownFiles(['pair', 'kubeconfig']).filter(
        (one) => one.component === component && named.has(one.flag),
      );
      expect(files.length).toBeGreaterThan(0);
      for (const one of files) await put(machine, one);
      await tell(machine, { [component]: await configure(machine, component, files) });
      await expireAll(machine, () => false);
      const { stderr } = await run(machine, '--mode=regen', '--once');
      const states = await Promise.all(files.map(async (one) => ({ ...one, valid: await isValid(machine, one) })));
      expect(
        states.filter(({ valid }) => !valid).map(({ file }) => file),
        stderr,
      ).toEqual([]);
    },
  );

  it('lead to the directory in which a component keeps what it serves', async () => {
    await using machine = await whole.copy();
    const directories = { kubelet: 'kubelet', 'kube-scheduler': 'kube-scheduler' } as const;
    const files = (Object.keys(directories) as (keyof typeof directories)[]).map((component): OwnFile => {
      const role = { holds: 'pair', usage: 'serving' } as const;
      return { component, flag: 'cert-dir', role, file: `${own}/${component}/${directories[component]}.crt` };
    });
    for (const one of files) await put(machine, one);
    await tell(
      machine,
      byComponent(files.map((one) => ({ ...one, role: { holds: 'bundle' }, file: dirname(one.file) }))),
    );
    await expireAll(machine, () => false);
    const { stderr } = await run(machine, '--mode=regen', '--once');
    const states = await Promise.all(files.map((one) => isValid(machine, one)));
    expect(states, stderr).toEqual([true, true]);
  });
});
