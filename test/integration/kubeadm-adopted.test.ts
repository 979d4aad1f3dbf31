// The files of kubeadm on an adopted machine, made by the real kubeadm: healed as ever, for etcd, the kubelet and the way
// back, and nothing of ours is touched.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { podAddition } from '../../lib/adopt/pod-files.ts';
import { writeRecord } from '../../lib/adopt/record.ts';
import { driftOf } from '../../lib/adopt/repair.ts';
import { podManifest } from '../../lib/adopt/static-pods-apply.ts';
import { addTo } from '../../lib/adopt/static-pods.ts';
import { staticPods } from '../../lib/components.ts';
import { flagArguments } from '../../lib/install/component-flags.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { toYaml } from '../../lib/yaml.ts';
import { createAuthority } from '../support/certificates/certificates.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { kubeletClient, type Leaf, leaves, past, reissueFiles } from '../support/node/leaves.ts';
import { asRoot, unseen } from '../support/cluster/namespaces.ts';

const program = fileURLToPath(new URL('../../dist/app/main.mjs', import.meta.url));
/** No kubelet has been here: its kubeconfig still holds its credentials. */
const kubeletLeaf: Leaf = { name: 'kubelet.conf', file: 'etc/kubernetes/kubelet.conf', ca: 'ca' };
const all = [...leaves.filter((leaf) => leaf !== kubeletClient), kubeletLeaf];
const resolved = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: ['api.example.com'] } });

let pristine: KubeadmMachine;
beforeAll(async () => {
  pristine = await KubeadmMachine.create();
});
afterAll(() => pristine?.[Symbol.asyncDispose]());

const additionsOf = (machine: KubeadmMachine) =>
  staticPods.map((pod) =>
    podAddition(pod, {
      resolved,
      directory: machine.path('kube-cert-recovery'),
      image: 'example.com/recovery:1',
      kubeletPki: join(machine.root, 'var/lib/kubelet/pki'),
    }),
  );

const fileOfFlag = (machine: KubeadmMachine, flag: string): string =>
  String(additionsOf(machine)[0]?.flags[flag] ?? expect.unreachable(flag));

/** Everything of kubeadm's expired, the API server's own files as the API has them. */
async function adoptedMachine(): Promise<KubeadmMachine> {
  const machine = await pristine.copy();
  for (const addition of additionsOf(machine)) {
    const path = machine.path('manifests', `${addition.pod}.yaml`);
    const manifest = podManifest(await readFile(path, 'utf8'), addition.pod, path);
    await writeFile(path, toYaml(addTo(manifest, addition)));
    const pattern = new RegExp(`${addition.layout.directory}[^,:]*`, 'g');
    for (const file of flagArguments(addition.flags).flatMap((flag) => flag.match(pattern) ?? [])) {
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, 'somebody else looks after this\n');
    }
  }
  await copyFile(machine.path('pki/ca.crt'), fileOfFlag(machine, 'client-ca-file'));
  await copyFile(machine.path('pki/apiserver.crt'), fileOfFlag(machine, 'tls-cert-file'));
  await reissueFiles(machine.root, all, past(new Date()));
  return machine;
}

function run(command: string, args: readonly string[]): Promise<Outcome> {
  return new Promise((done) => {
    execFile(command, args, (err, stdout, stderr) =>
      done({ stdout, stderr, code: err === null ? 0 : typeof err.code === 'number' ? err.code : -1 }),
    );
  });
}

/** In a PID namespace of its own: a kubeadm that runs elsewhere on this machine is no other writer of these files. */
async function recover(machine: KubeadmMachine): Promise<Outcome> {
  const config = join(machine.root, 'recovery.yaml');
  const directories = {
    kubernetesDir: machine.path(),
    pkiDir: machine.path('pki'),
    kubeletDir: join(machine.root, 'var/lib/kubelet'),
  };
  const regen = { backupDir: join(machine.root, 'backups'), lockDir: join(machine.root, 'lock') };
  const text = `apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: kubeadm\n`;
  await writeFile(config, `${text}directories: ${JSON.stringify(directories)}\nregen: ${JSON.stringify(regen)}\n`);
  const alone = [...asRoot, ...unseen];
  return run('unshare', [...alone, process.execPath, program, '--mode=regen', '--once', `--config=${config}`]);
}

async function contentOf(directory: string): Promise<Readonly<Record<string, string>>> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const digest = async (path: string) =>
    createHash('sha256')
      .update(await readFile(path))
      .digest('hex');
  return Object.fromEntries(await Promise.all(paths.map(async (path) => [path, await digest(path)] as const)));
}

const renewed = ({ stderr }: Outcome): readonly string[] =>
  stderr
    .split('\n')
    .flatMap((line) => {
      const fields = line.startsWith('{') ? (JSON.parse(line) as Readonly<Record<string, string>>) : {};
      return fields['event'] === 'target.regenerated' ? [fields['artefact'] ?? ''] : [];
    })
    .toSorted();
const names = all.map(({ name }) => name).toSorted();

it('heals every file of kubeadm, and nothing below our directory nor a manifest', async () => {
  await using machine = await adoptedMachine();
  const kept = [machine.path('kube-cert-recovery'), machine.path('manifests')];
  const before = await Promise.all(kept.map(contentOf));
  expect(Object.keys(before[0] ?? {}).length).toBeGreaterThan(10);
  // As the kubelet has written it when it asked with our bootstrap kubeconfig.
  const path = machine.path('kubelet.conf');
  const bundle = machine.path(
    'kube-cert-recovery/kube-apiserver/certs/configmaps/kube-apiserver-server-ca/ca-bundle.crt',
  );
  await writeFile(
    path,
    (await readFile(path, 'utf8')).replace(/certificate-authority-data: \S+/, `certificate-authority: ${bundle}`),
  );
  const outcome = await recover(machine);
  expect(outcome.code, outcome.stderr).toBe(0);
  expect(renewed(outcome)).toEqual(names);
  expect(outcome.stderr).not.toContain('is not renewed');
  expect(await Promise.all(kept.map(contentOf))).toEqual(before);
  expect(await readFile(path, 'utf8')).toContain(`certificate-authority: ${bundle}\n`);
  expect(await readFile(path, 'utf8')).not.toContain('certificate-authority-data');
  const again = await recover(machine);
  expect({ code: again.code, renewed: renewed(again) }).toEqual({ code: 0, renewed: [] });
});

it('signs nothing for the kubelet where the API server has another CA by now, and says why', async () => {
  await using machine = await adoptedMachine();
  const other = await createAuthority(join(machine.root, 'tmp'), { commonName: 'kubernetes' });
  await copyFile(other.cert, fileOfFlag(machine, 'client-ca-file'));
  const before = await readFile(machine.path('kubelet.conf'), 'utf8');
  const outcome = await recover(machine);
  expect(outcome.code, outcome.stderr).toBe(0);
  expect(renewed(outcome)).toEqual(names.filter((name) => name !== 'kubelet.conf'));
  expect(await readFile(machine.path('kubelet.conf'), 'utf8')).toBe(before);
  expect(outcome.stderr).toContain('the API server trusts no client of that CA any more');
});

it('status says whose files are read, and what has drifted', async () => {
  await using machine = await adoptedMachine();
  expect((await recover(machine)).code).toBe(0);
  const [kubernetesDir, pkiDir] = [machine.path(), machine.path('pki')];
  const additions = additionsOf(machine);
  await writeRecord(machine.path('kube-cert-recovery'), { kubernetesDir, pkiDir, nodeName: 'node1', additions });
  const status = await machine.status();
  // No API server answers, so nobody knows of its objects and containers.
  expect(status.code, status.stdout).toBe(1);
  expect(status.stdout).toContain('objects and containers of this adopted machine are not known: ');
  expect(status.stdout).not.toContain('as it should be');
  expect(status.stdout.replaceAll(/\s+/g, ' ')).toContain('this machine is adopted: its static pods read files below');
  expect(status.stdout).not.toMatch(/^kube-apiserver\s/m);

  // A plain `kubeadm upgrade`, as far as manifests are concerned.
  await machine.kubeadmDone('init', 'phase', 'control-plane', 'all');
  const [addition = expect.unreachable()] = additions;
  const path = machine.path('manifests/kube-apiserver.yaml');
  const written = podManifest(await readFile(path, 'utf8'), addition.pod, path);
  expect(driftOf(written, addition)).toBe('has nothing of this program: it has been rewritten');
  const drifted = (await machine.status()).stdout.replaceAll(/\s+/g, ' ');
  for (const pod of staticPods) {
    expect(drifted).toContain(`this machine is adopted, but ${pod}.yaml has nothing of this program`);
  }
});
