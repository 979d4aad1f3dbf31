// What messages tell a person to type next, typed as it is printed in a shell of a machine that the real kubeadm has made,
// against a real API server. The order is the story of that machine. Its kubelet is a fake; of systemctl it has what makes
// the link of an enabled timer.
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseYaml, toYaml } from '../../lib/yaml.ts';
import { createAuthority } from '../support/certificates/certificates.ts';
import { dated } from '../support/certificates/dated.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { FakeKubelet } from '../support/cluster/fake-kubelet.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { onMachine } from '../support/cluster/machine-shell.ts';
import { freePorts } from '../support/cluster/ports.ts';
import { eventually } from '../support/eventually.ts';

const image = 'example.com/recovery:1';
const ago = (days: number): Date => new Date(Math.floor(Date.now() / 1000) * 1000 - days * 86_400_000);

let machine: KubeadmMachine;
beforeAll(async () => {
  machine = await KubeadmMachine.create();
  for (const directory of ['var/lib/kubelet/pki', 'var/lib/kube-cert-recovery', 'units', 'bin', 'opt'])
    await mkdir(join(machine.root, directory), { recursive: true });
  const enabled = '/etc/systemd/system/timers.target.wants';
  const systemctl = `#!/bin/sh\n[ "$1" != enable ] || { mkdir -p ${enabled}; ln -sf "../$3" "${enabled}/$3"; }\n`;
  await writeFile(join(machine.root, 'bin/systemctl'), systemctl, { mode: 0o755 });
  await writeFile(join(machine.root, 'bin/crictl'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
});
afterAll(() => machine?.[Symbol.asyncDispose]());

const place = `mkdir -p /run/systemd/system /etc/systemd/system
mount --bind "$1/units" /etc/systemd/system
mount --bind "$1/opt" /opt # where the program is copied, and linked into
mount --bind "$1/bin" /usr/local/bin
PATH="$1/bin:$PATH"
`;
let network = false;
const run = (command: string): Promise<Outcome> => onMachine(machine.root, command, { place, network });

/** All that it has said. */
async function typed(command: string, code = 0): Promise<string> {
  const { stdout, stderr, code: exit } = await run(command);
  expect(exit, `${command}\n${stdout}${stderr}`).toBe(code);
  return stdout + stderr;
}

/** The command that begins with these words, to the end of its quotes or its line. */
function printed(text: string, words: string): string {
  const [command] = new RegExp(String.raw`kube-cert-recovery ${words}\b[^"\\\n]*`).exec(text) ?? [];
  return command ?? expect.unreachable(`no "${words}" in\n${text}`);
}

const repair = 'kube-cert-recovery --mode=regen --once --preset=kubeadm';
const file = (path: string): Promise<string> => readFile(machine.path(path), 'utf8');

async function expire(cert: string, ca: string): Promise<void> {
  await writeFile(machine.path(cert), dated(await file(cert), await file(ca), ago(400), ago(1)));
}

async function strangersCa(name: string, commonName: string): Promise<void> {
  const { cert, key } = await createAuthority(join(machine.root, 'stranger'), { commonName });
  await writeFile(machine.path(`${name}.crt`), await readFile(cert));
  await writeFile(machine.path(`${name}.key`), await readFile(key));
}

describe('of files', () => {
  it('restore NAME, where a kubeconfig that nobody needs has been deleted', async () => {
    const [before, key] = [await file('admin.conf'), await file('pki/ca.key')];
    const data = /(?<=client-certificate-data: )\S+/;
    const pem = Buffer.from(data.exec(before)?.[0] ?? '', 'base64').toString();
    const expired = Buffer.from(dated(pem, key, ago(400), ago(1))).toString('base64');
    await writeFile(machine.path('admin.conf'), before.replace(data, expired));
    await typed(repair);
    await rm(machine.path('admin.conf'));
    await typed(printed(await typed('kube-cert-recovery status'), 'restore admin.conf'));
    expect(await file('admin.conf')).toContain(expired);
    await typed(repair);
  });

  it('restore --force, where another CA has come and a copy of the former is kept that has expired', async () => {
    await expire('pki/etcd/ca.crt', 'pki/etcd/ca.key');
    await typed(repair);
    await strangersCa('pki/etcd/ca', 'etcd-ca');
    const command = printed(await typed(repair, 5), 'restore etcd-ca');
    expect(command).toContain('--force');
    await typed(command);
    await typed(repair);
  });

  it('the run with --accept-ca, where another CA has come', async () => {
    await strangersCa('pki/front-proxy-ca', 'front-proxy-ca');
    await typed(printed(await typed(repair, 5), '--mode=regen'));
    await typed(repair);
    await typed('kube-cert-recovery status');
  });
});

describe('of a cluster', () => {
  let plane: ControlPlane;
  beforeAll(async () => {
    network = true;
    const directory = join(machine.root, 'control-plane');
    plane = await startControlPlane({
      components: ['etcd', 'kube-apiserver', 'kube-controller-manager'],
      directory,
      // What comes with tokens then knows both names of the API server.
      flags: { 'kube-controller-manager': { 'root-ca-file': join(directory, 'pki', 'trust-bundle.crt') } },
    });
    const { clusters, users } = parseYaml(await readFile(plane.recoveryKubeconfig, 'utf8')) as Kubeconfig;
    const manifest = 'manifests/kube-apiserver.yaml';
    const pod = (await file(manifest)).replace(/(?<=--advertise-address=).*/, '127.0.0.1');
    await writeFile(machine.path(manifest), pod.replace(/(?<=--secure-port=).*/, String(plane.port)));
    for (const name of ['admin', 'super-admin', 'controller-manager', 'scheduler', 'kubelet']) {
      const own = structuredClone(parseYaml(await file(`${name}.conf`))) as Kubeconfig;
      for (const one of own.clusters) one.cluster = { ...one.cluster, server: plane.url };
      if (name === 'admin') {
        for (const one of own.clusters) one.cluster = clusters[0].cluster;
        for (const one of own.users) one.user = { ...one.user, ...users[0].user };
      }
      await writeFile(machine.path(`${name}.conf`), toYaml(own));
    }
  });
  afterAll(() => plane?.[Symbol.asyncDispose]());

  interface Kubeconfig {
    readonly clusters: [{ cluster: object }];
    readonly users: [{ user: object }];
  }

  it('init approver and the approver of its notice, and worker NODE, where init workers sees no approver', async () => {
    const said = await typed('kube-cert-recovery init workers');
    const notice = await typed(printed(said, 'init approver'));
    expect(notice).toContain('No approver runs yet');
    const config = machine.path('kube-cert-recovery/approver/config.yaml');
    const [port = 0] = await freePorts(1); // its own is the same on every machine
    await writeFile(config, (await readFile(config, 'utf8')).replace(/(?<=127\.0\.0\.1:)\d+/, String(port)));
    const stopped = `& until [ -e "$1/stop" ]; do sleep 0.1; done; kill $!; wait $!`;
    const running = typed(`${printed(notice, '--mode=approver')} ${stopped}`);
    await eventually(async () => expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200));
    await writeFile(join(machine.root, 'stop'), '');
    await running;
    await plane.admin('/api/v1/nodes', { method: 'POST', body: { metadata: { name: 'panda' } } });
    const byHand = await typed(printed(said, 'worker NODE').replace('NODE', 'panda'));
    expect(byHand).toContain(`Wrote ${machine.root}/panda-kubelet-client.pem\n`);
  });

  it('uninstall host, where plain uninstall names this machine, and the uninstall of its own last line', async () => {
    await typed('kube-cert-recovery init host');
    const refused = await typed('kube-cert-recovery uninstall --part=hosts', 1);
    const said = await typed(printed(refused, 'uninstall host'));
    expect(said).toContain('Removed /etc/systemd/system/kube-cert-recovery.service\n');
    expect(said).toContain('until the next boot notes of runs in /run/kube-cert-recovery');
    const looked = await typed(printed(said, 'uninstall --part'));
    expect(looked).toContain('Nodes panda may have the token');
    expect(await typed(printed(looked, 'uninstall --part=workers,hosts'))).toContain('Removed ServiceAccount "');
  });

  it('init adopt --repair, init adopt --image and uninstall adopt, where manifests and files of ours are gone', async () => {
    await writeFile(join(machine.root, 'var/lib/kubelet/pki/kubelet-client-current.pem'), 'a certificate');
    const manifestsDir = machine.path('manifests');
    await using kubelet = new FakeKubelet(plane, { manifestsDir, nodeName: 'node1' });
    const scheduler = await file('manifests/kube-scheduler.yaml');
    await typed(`kube-cert-recovery init adopt --image=${image}`);
    expect(kubelet.isAsleep).toBe(false);
    const adopted = await file('manifests/kube-scheduler.yaml');

    await writeFile(machine.path('manifests/kube-scheduler.yaml'), scheduler);
    const { stdout: drifted } = await run('kube-cert-recovery status');
    const said = await typed(printed(drifted, 'init adopt --repair'));
    expect(await file('manifests/kube-scheduler.yaml')).toBe(adopted);

    await rm(machine.path('kube-cert-recovery/kube-scheduler/config.yaml'));
    await writeFile(machine.path('manifests/kube-scheduler.yaml'), scheduler);
    const failed = await typed('kube-cert-recovery init adopt --repair', 1);
    const again = printed(failed, 'init adopt --image');
    expect(again).toContain(image);
    await typed(again);
    expect(await file('manifests/kube-scheduler.yaml')).toBe(adopted);
    await typed(printed(said, 'uninstall adopt'));
    expect(parseYaml(await file('manifests/kube-scheduler.yaml'))).toEqual(parseYaml(scheduler));
  });
});
