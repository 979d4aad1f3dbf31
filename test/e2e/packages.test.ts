// The life of the packages on one machine that systemd boots, without npm, Node, uplink and names: everything expired and the
// kubelet dead, the two commands of docs/install.md, Ready; a newer package, one that does not run, and removal. Then the
// same packages by the published Ansible role and by the cloud-configs, on it and on a worker.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFile, cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { blocks, page, root, section } from '../docs/markdown.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { createProgress } from '../support/cluster/progress.ts';
import { eventually } from '../support/eventually.ts';
import { ask, bringPlaybook, play, type Played } from '../support/node/ansible.ts';
import { powerCycle, proveHealthy } from '../support/node/boot.ts';
import { applyUserData } from '../support/node/cloud-init.ts';
import { Cluster } from '../support/node/cluster.ts';
import { cutOffAtBoot, cutOffSince } from '../support/node/cut-off.ts';
import { leaves, past, reissue, superAdmin } from '../support/node/leaves.ts';
import { writeNewerImage } from '../support/node/newer-image.ts';
import { type Node, withScratch } from '../support/node/node.ts';
import { releasedPackages } from '../support/release.ts';

const run = promisify(execFile);
const { version } = JSON.parse(page('package.json')) as { readonly version: string };
const own = process.arch === 'arm64' ? 'arm64' : 'amd64';
const archive = `kube-cert-recovery-${version}-linux-${own}.tar.gz`;
const image = `kube-cert-recovery-${version}-oci.tar`;
const rpm = `kube-cert-recovery-${version}-1.${own === 'arm64' ? 'aarch64' : 'x86_64'}.rpm`;
const debOf = (which: string): string => `kube-cert-recovery_${which}-1_${own}.deb`;
const [broken, newer] = ['9.0.0', '9.1.0'];
const all = [...leaves, superAdmin];
const files = '/root/packages';
const link = '/opt/kube-cert-recovery/bin/kube-cert-recovery';

/** What a machine changes by itself, what belongs to the cluster and to dpkg, and the copies that every removal leaves. */
const others = ['/proc', '/sys', '/run', '/tmp', '/var/log', '/var/tmp', '/var/lib/systemd', '/var/lib/machine'].concat(
  ['/etc/kubernetes', '/var/lib/kubelet', '/var/lib/etcd', '/var/lib/containerd', '/var/lib/cni'],
  ['/var/lib/dpkg', files, '/var/lib/kube-cert-recovery'],
  // Of the package managers and of cloud-init; rpm has no other place than Debian's for its own.
  ['/var/lib/apt', '/var/cache/apt', '/var/lib/dnf', '/var/cache/dnf', '/var/lib/rpm', '/var/lib/cloud', '/etc/cloud'],
);

/** Commands below a heading of docs/install.md: to install, and to remove. */
const typed = (heading: string): readonly string[] =>
  blocks(section(page('docs/install.md'), heading)).map(({ text }) => text.replaceAll('amd64', own));

/** The .deb of this version as another version, in `into`; its launcher begins with this line. */
async function repacked(released: string, into: string, which: string, line: string): Promise<void> {
  await withScratch(async (scratch) => {
    const deb = join(scratch, 'package');
    await run('dpkg-deb', ['-R', join(released, debOf(version)), deb]);
    const control = join(deb, 'DEBIAN/control');
    const launcher = join(deb, 'usr/lib/kube-cert-recovery/kube-cert-recovery');
    await writeFile(control, (await readFile(control, 'utf8')).replace(/^Version: .*$/m, `Version: ${which}-1`));
    await writeFile(launcher, (await readFile(launcher, 'utf8')).replace('#!/bin/sh\n', `#!/bin/sh\n${line}\n`));
    await run('dpkg-deb', ['--root-owner-group', '-Zgzip', '-z1', '-b', deb, join(into, debOf(which))]);
  });
}

/** An empty package for the rpm of a machine that has its libraries from Debian, in `into`. */
async function rpmOfLibraries(into: string): Promise<void> {
  const spec = `Name: libraries
Version: 1
Release: 1
Summary: Those of this machine
License: none
BuildArch: noarch
Provides: glibc = 2.36, libstdc++
%description
%files
`;
  await withScratch(async (scratch) => {
    await writeFile(join(scratch, 'libraries.spec'), spec);
    const places = [
      '--define',
      `_topdir ${scratch}`,
      '--define',
      `_rpmdir ${into}`,
      '--define',
      '_rpmfilename %{NAME}.rpm',
    ];
    await run('rpmbuild', ['-bb', '--quiet', ...places, join(scratch, 'libraries.spec')]);
  });
}

describe('the packages on a bare node', () => {
  let cluster: Cluster;
  let before: string;
  let released: string;

  beforeAll(async () => {
    released = await releasedPackages(createProgress());
    cluster = await Cluster.create(inject('workshop'), { systemd: true });
    await withScratch(async (scratch) => {
      for (const name of [archive, debOf(version), rpm, image])
        await copyFile(join(released, name), join(scratch, name));
      await repacked(released, scratch, newer, '# of a newer version');
      await repacked(released, scratch, broken, '[ -z "${INVOCATION_ID-}" ] || exit 9 # systemd sets it');
      await rpmOfLibraries(scratch);
      await cluster.node.sh(`mkdir ${files}`);
      await cluster.node.copyIn(scratch, files);
    });
    await bringPlaybook(cluster.node);
    before = await listed();
  });
  afterAll(() => (cluster as Cluster | undefined)?.[Symbol.asyncDispose]());

  const listed = (): Promise<string> =>
    cluster.node.sh(
      `find / -xdev \\( ${others.map((path) => `-path ${path}`).join(' -o ')} \\) -prune -o -print | sort`,
    );
  const on = (command: string): Promise<string> => cluster.node.sh(`cd ${files} && ${command} 2>&1`);
  const inUse = async (): Promise<string> => (await on(`readlink -f ${link}`)).trim();
  const folders = async (): Promise<readonly string[]> =>
    (await on(`ls -d /opt/kube-cert-recovery/bin/*/`))
      .trim()
      .split('\n')
      .map((path) => path.slice(0, -1));

  /** Off until everything has expired; on again it stays dead. */
  async function die(): Promise<void> {
    const { node } = cluster;
    await node.off();
    await reissue(node, all, past(new Date()));
    await cutOffAtBoot(node);
    await node.on();
    await node.runtimeReady();
    expect(await cutOffSince(node)).toBeGreaterThan(0);
    expect((await node.run('command -v node npm')).code).not.toBe(0);
    const state = (): Promise<string> => node.sh('systemctl show --property=SubState --value kubelet.service');
    await eventually(async () => expect(await state()).toBe('auto-restart\n'), { everyMs: 100 });
  }

  /** The commands that are typed, until the node is Ready and the program says so itself. */
  async function comesBack(commands: string): Promise<string> {
    const since = Date.now();
    const told = await on(commands);
    const installed = Date.now();
    const ready = await cluster.ready(cluster.node, { since });
    await proveHealthy(cluster, cluster.node, all);
    await eventually(
      async () => {
        const { code, output } = await cluster.node.run('kube-cert-recovery status 2>&1');
        expect(code, output).toBe(0);
        expect(output).toContain('ARMED: yes');
      },
      { everyMs: 500 },
    );
    console.log(`two commands: ${installed - since} ms, first of them to Ready: ${ready - since} ms`);
    return told;
  }

  it('come back from the archive by two commands, and are gone after another', async () => {
    const [install = '', remove = ''] = typed('Archive');
    expect(install.trim().split('\n')).toHaveLength(2);
    await die();
    await comesBack(install);
    expect(await on('systemctl cat kubelet.service')).toContain(`${link} --mode=regen`);
    await on(`rm -r ${archive.replace('.tar.gz', '')}`);
    expect(await on('kube-cert-recovery --version')).toContain(version);
    await on(remove);
    expect(await listed()).toBe(before);
  });

  it('come back from the .deb by two commands', async () => {
    const [install = ''] = typed('Debian and Ubuntu');
    expect(install.trim().split('\n')).toHaveLength(2);
    await die();
    await comesBack(install);
  });

  it('do not use a newer version that does not run under systemd, and say so', async () => {
    const used = await inUse();
    const [install = ''] = typed('Debian and Ubuntu');
    const { code, output } = await cluster.node.run(
      `cd ${files} && { ${install.replaceAll(version, broken).trim().replace('\n', ' && ')}; } 2>&1`,
    );
    expect(code).toBe(1);
    expect(output).toMatch(/failed there \(exit-code 9\); "\S+" stays in use$/m);
    expect(output).toContain(`"${used}" stays in use`);
    expect(await inUse()).toBe(used);
    expect(await folders()).toHaveLength(1);
    expect(await on(`systemctl list-units --all 'kube-cert-recovery-trial*' --no-legend`)).toBe('');
    await on('systemctl start kube-cert-recovery.service && kube-cert-recovery status');
  });

  it('use a newer version that runs, and keep the former beside it', async () => {
    const former = await inUse();
    const [install = ''] = typed('Debian and Ubuntu');
    const told = await on(install.replaceAll(version, newer).trim().replace('\n', ' && '));
    expect(told).toContain(`The former version stays beside it: ${former}\n`);
    expect(await on(`head -n 2 ${link}`)).toContain('# of a newer version');
    await on('systemctl start kube-cert-recovery.service');
    await on('kube-cert-recovery init host');
    expect(await folders()).toHaveLength(2);
    await on('kube-cert-recovery status');
  });

  it('leave no trace when they are removed', async () => {
    const [, remove = ''] = typed('Debian and Ubuntu');
    await on(remove.trim().replace('\n', ' && '));
    expect(await listed()).toBe(before);
    expect(await on(`systemctl list-units --all 'kube-cert-recovery*' --no-legend; systemctl is-active kubelet`)).toBe(
      'active\n',
    );
  });

  it('have an image that the container runtime takes from a file, and runs', async () => {
    const imports = blocks(section(page('docs/image.md'), 'From a release')).filter(
      ({ language }) => language === 'sh',
    );
    expect(imports).toHaveLength(1);
    await on(imports[0]?.text.trim().replaceAll('\n', ' && ') ?? 'false');
    const name = `localhost/kube-cert-recovery:${version}`;
    expect((await on('ctr -n k8s.io images list -q')).split('\n')).toContain(name);
    const told = await on(`ctr -n k8s.io run --rm ${name} probe /usr/bin/node /app/main.mjs --version`);
    expect(told).toContain(version);
  });

  const administer = (command: string): Promise<string> =>
    on(`export KUBECONFIG=/etc/kubernetes/admin.conf KUBECACHEDIR=/tmp/kubectl; ${command}`);
  const fleet = (command: string): Promise<string> =>
    administer(`kubectl --namespace kube-cert-recovery-host ${command}`);
  const rolledOut = (): Promise<string> => fleet('rollout status daemonset kube-cert-recovery-host --timeout=55s');
  const saidByInstall = (): Promise<string> => fleet('logs daemonset/kube-cert-recovery-host -c install');
  /** What the exporter answers on the node. */
  const exported = (path: string): Promise<string> =>
    on(`$(dirname $(readlink -f ${link}))/node -e "fetch('http://127.0.0.1:11451/${path}').then(async (answer) =>
      console.log(answer.status, await answer.text()))"`);

  it('come by a DaemonSet, which arms the node and shows its metrics', async () => {
    const { node } = cluster;
    await withScratch(async (scratch) => {
      const manifests = join(scratch, 'kube-cert-recovery/manifests/daemonset');
      await cp(join(root, 'manifests/daemonset'), manifests, { recursive: true });
      const [kustomization] = blocks(section(page('docs/fleet.md'), 'kustomize'));
      const text = kustomization?.text.replace('example.org/', 'localhost/').replaceAll('0.1.0', version) ?? '';
      await writeFile(join(scratch, 'kustomization.yaml'), text);
      await node.copyIn(scratch, files);
    });
    await administer(`kubectl label node ${node.name} node-role.kubernetes.io/control-plane=`);
    await administer(
      'kubectl create namespace kube-cert-recovery && kubectl create secret generic kept -n kube-cert-recovery',
    );
    const since = Date.now();
    await administer('kubectl apply -k .');
    await eventually(async () => expect(await saidByInstall()).toContain('ARMED: yes'), { everyMs: 500 });
    const armed = Date.now();
    await rolledOut();
    console.log(`apply to armed: ${armed - since} ms, to a pod that is ready: ${Date.now() - since} ms`);
    expect(await on('kube-cert-recovery status')).toContain('ARMED: yes');
    expect(await on('systemctl cat kube-cert-recovery.service')).toContain('--renew-before=30d');
    const measured = await exported('metrics');
    expect(measured).toMatch(/^200 /);
    expect(measured).toMatch(/^kube_cert_recovery_units_loaded 1$/m);
    expect(measured).toMatch(/^x509_cert_expired.*artefact="apiserver".* 0$/m);
    const status = await on('cat /proc/$(pgrep -u 65532)/status');
    expect(status).toMatch(/^Uid:\s+65532\s/m);
    expect(status).toMatch(/^CapEff:\s+0+$/m);
    expect(await on('ls /run/systemd/system')).not.toContain('kube-cert-recovery');
  });

  it('bring such a node back that was off past expiry, by itself and without its pod', async () => {
    const whileOff = async (node: Node): Promise<void> => {
      await reissue(node, all, past(new Date()));
      await cutOffAtBoot(node);
    };
    console.log('container runtime up to Ready, in ms:', await powerCycle(cluster, { whileOff }));
    await proveHealthy(cluster, cluster.node, all);
    await eventually(async () => expect(await exported('readyz')).toBe('200 ok\n'), { everyMs: 500 });
    await rolledOut();
  });

  it('are upgraded by the image of a newer version, and removed by the pods', async () => {
    const former = await inUse();
    const name = `localhost/kube-cert-recovery:${newer}`;
    await withScratch(async (scratch) => {
      const line = '# of a newer version';
      await writeNewerImage(join(released, image), { file: join(scratch, 'newer.tar'), name, line, architecture: own });
      await cluster.node.copyIn(scratch, files);
    });
    await on('ctr -n k8s.io images import newer.tar');
    await fleet(`set image daemonset kube-cert-recovery-host install=${name} exporter=${name}`);
    await rolledOut();
    expect(await saidByInstall()).toContain(`The former version stays beside it: ${former}\n`);
    expect(await on(`head -n 2 ${link}`)).toContain('# of a newer version');
    await on('kube-cert-recovery status');
    const [removal] = blocks(section(page('docs/fleet.md'), 'Remove'));
    const { patches } = parseYaml(removal?.text ?? '') as { readonly patches: readonly { readonly patch: string }[] };
    await fleet(
      `patch daemonset kube-cert-recovery-host --type=json --patch '${JSON.stringify(parseYaml(patches[0]?.patch ?? ''))}'`,
    );
    await rolledOut();
    expect(await listed()).toBe(before);
    await administer('kubectl delete -k .');
    await administer('kubectl -n kube-cert-recovery get secret kept && kubectl delete namespace kube-cert-recovery');
    expect(await on(`systemctl list-units --all 'kube-cert-recovery*' --no-legend; systemctl is-active kubelet`)).toBe(
      'active\n',
    );
  });

  const digest = async (node: Node): Promise<string> => {
    const where = '/etc /opt /usr/bin/kube-cert-recovery /usr/lib/kube-cert-recovery /var/cache';
    return node.sh(`find ${where} -xdev -type f -print0 2>/dev/null | sort -z | xargs -0 sha256sum | sha256sum`);
  };
  const armed = async (node: Node): Promise<unknown> =>
    (JSON.parse((await node.run('kube-cert-recovery status -o json 2>/dev/null')).output) as { armed: unknown }).armed;
  const sha256 = async (name: string): Promise<string> => (await on(`sha256sum ${name}`)).slice(0, 64);
  const changedBy = ({ code, changed, output }: Played): readonly string[] => {
    expect(code, output).toBe(0);
    return changed;
  };
  const deb = { package: `${files}/${debOf(version)}` };
  const withoutWorkers = '--skip-tags=workers';

  it('come by the Ansible role, whose check changes nothing and whose second run has nothing to change', async () => {
    const { node } = cluster;
    const untouched = await digest(node);
    const once = async (given: object, flags = ''): Promise<readonly string[]> =>
      changedBy(await play(node, { ...given }, `${withoutWorkers} ${flags}`));
    expect(await once(deb, '--check')).toEqual(['Copy the package']);
    expect(await digest(node)).toBe(untouched);
    expect(await listed()).toBe(before);
    const installed = ['Copy the package', 'Install the package of Debian', 'Write the units'];
    expect(await once(deb)).toEqual(installed);
    expect(await armed(node)).toBe(true);
    expect(await ask(node)).toMatchObject({ code: 0, output: expect.stringContaining('ARMED: yes') });
    expect(await once(deb)).toEqual([]);

    const dropIn = '/etc/systemd/system/kubelet.service.d/20-kube-cert-recovery.conf';
    await node.sh(`rm ${dropIn} && systemctl stop kube-cert-recovery.timer`);
    const drifted = await digest(node);
    expect(await once(deb, '--check')).toEqual(['Compare the units']);
    expect(await digest(node)).toBe(drifted);
    expect(await armed(node)).toBe(false);
    const flags = { flags: ['--renew-before=30d'] };
    expect(await once({ ...deb, ...flags })).toEqual(['Write the units']);
    expect(await armed(node)).toBe(true);
    expect(await node.sh('systemctl cat kube-cert-recovery.service')).toContain(' --renew-before=30d');

    const url = { ...flags, package: `file://${files}/${debOf(newer)}` };
    const former = await inUse();
    const refused = await play(node, { ...url, sha256: createHash('sha256').digest('hex') }, withoutWorkers);
    expect([refused.code, refused.changed]).toEqual([2, []]);
    expect(refused.output).toContain('did not match');
    const upgrade = { ...url, sha256: await sha256(debOf(newer)) };
    expect(await once(upgrade)).toEqual(['Download the package', ...installed.slice(1)]);
    expect(await inUse()).not.toBe(former);
    expect(await once(upgrade)).toEqual([]);

    const gone = ['Remove the units', 'Remove the package', 'Remove the file of the package'];
    const there = await digest(node);
    expect(await once({ state: 'absent' }, '--check')).toEqual(gone);
    expect(await digest(node)).toBe(there);
    expect(await once({ state: 'absent' })).toEqual(gone);
    expect(await once({ state: 'absent' })).toEqual([]);
    expect(await listed()).toBe(before);
  });

  it('come by the role as an rpm', async () => {
    const { node } = cluster;
    await on('dnf --quiet --assumeyes install ./libraries.rpm');
    const given = { package: `${files}/${rpm}` };
    const installed = ['Copy the package', 'Install the package of RHEL', 'Write the units'];
    expect(changedBy(await play(node, given, withoutWorkers))).toEqual(installed);
    expect(changedBy(await play(node, given, withoutWorkers))).toEqual([]);
    expect(await armed(node)).toBe(true);
    // On this machine the role would ask apt for it.
    await on('kube-cert-recovery uninstall host && dnf --quiet --assumeyes remove kube-cert-recovery');
  });

  /** A published cloud-config, filled in. */
  const userData = async (name: string, sum: string, token = ''): Promise<string> => {
    const text = page(`manifests/cloud-init/${name}.yaml`);
    const filled = text
      .replace(/url=.*/, `url=file://${files}/${debOf(version)}`)
      .replace(/sha256=0+/, `sha256=${sum}`);
    return filled.replace('content: TOKEN', `content: ${token}`);
  };
  const arm = 'kube-cert-recovery-arm.path';

  it('come by cloud-init, and arm the machine once it has the manifests of kubeadm', async () => {
    const { node } = cluster;
    const last = '/etc/kubernetes/manifests/kube-scheduler.yaml';
    await node.sh(`rm -f /var/cache/kube-cert-recovery.rpm; mv ${last} /root`);
    const wrong = await userData('control-plane', await sha256(debOf(newer)));
    await expect(applyUserData(node, wrong)).rejects.toThrow('exit code 1 of: cloud-init modules --mode=final');
    expect((await node.run('command -v kube-cert-recovery')).code).not.toBe(0);
    await applyUserData(node, await userData('control-plane', await sha256(debOf(version))));
    expect(await node.sh(`systemctl is-enabled ${arm} && systemctl is-active ${arm}`)).toBe('enabled\nactive\n');
    expect(await armed(node)).toBe(false);
    await node.sh(`mv /root/${last.split('/').at(-1)} ${last}`);
    await eventually(async () => expect(await armed(node)).toBe(true), { everyMs: 500 });
    await eventually(async () => expect((await node.run(`systemctl cat ${arm}`)).code).not.toBe(0));
  });

  it('come to a worker by the role, with the token of a control-plane node, and by cloud-init', async () => {
    const { node } = cluster;
    const worker = await cluster.joinWorker();
    await withScratch(async (scratch) => {
      await copyFile(join(released, debOf(version)), join(scratch, debOf(version)));
      await worker.sh(`mkdir ${files}`);
      await worker.copyIn(scratch, files);
    });
    await bringPlaybook(worker);
    expect(changedBy(await play(node, {}, '--tags=workers'))).toEqual(['Make it']);
    expect(changedBy(await play(node, {}, '--tags=workers'))).toEqual([]);
    const kubectl = 'kubectl --kubeconfig=/etc/kubernetes/admin.conf --namespace=kube-cert-recovery';
    const secret = 'secret kube-cert-recovery-worker-token --output=jsonpath={.data.token}';
    const token = await node.sh(`${kubectl} get ${secret} | base64 -d`);
    const given = { ...deb, worker_token: token };
    const installed = ['Copy the package', 'Install the package of Debian', 'Write the units'];
    const first = await play(worker, given);
    expect(changedBy(first)).toEqual(installed);
    expect(first.output).not.toContain(token);
    expect(await armed(worker)).toBe(true);
    expect(changedBy(await play(worker, given))).toEqual([]);
    await worker.sh('echo other > /etc/kubernetes/kube-cert-recovery/credentials/worker/token');
    const drifted = await digest(worker);
    expect(changedBy(await play(worker, given, '--check'))).toEqual(['Compare the units']);
    expect(await digest(worker)).toBe(drifted);
    expect(changedBy(await play(worker, given))).toEqual(['Write the units']);
    expect(changedBy(await play(worker, { ...given, state: 'absent' }))).toContain('Remove the units');

    await applyUserData(worker, await userData('worker', await sha256(debOf(version)), token));
    await eventually(async () => expect(await armed(worker)).toBe(true), { everyMs: 500 });
    await eventually(async () => expect((await worker.run(`systemctl cat ${arm}`)).code).not.toBe(0));
  });
});
