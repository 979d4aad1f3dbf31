// Machines that the real kubeadm made with another directory of certificates, or whose components ask a load balancer on the
// machine: what is lost or has expired there is repaired as where kubeadm usually has it.
import { X509Certificate } from 'node:crypto';
import { access, cp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { wholeCertificates } from '../../lib/pki/certificate.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { leaves, leavesIn, past, reissueFiles } from '../support/node/leaves.ts';

/** A pass that is given no directory of certificates. */
function run(machine: KubeadmMachine): Promise<Outcome> {
  const { kubernetesDir = '', kubeletDir = '' } = machine.directories;
  return machine.regen({ kubernetesDir, kubeletDir });
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );
const isValid = async (path: string): Promise<boolean> =>
  new X509Certificate(await readFile(path)).validToDate > systemClock.now();

/** Of the certificate that is embedded in a kubeconfig. */
async function endOf(kubeconfig: string): Promise<Date | undefined> {
  const [, data = ''] = /client-certificate-data: (\S+)/.exec(await readFile(kubeconfig, 'utf8')) ?? [];
  return wholeCertificates(Buffer.from(data, 'base64'))[0]?.facts.notAfter;
}

describe('a machine with certificatesDir: /etc/kubernetes/ssl', { concurrent: false }, () => {
  it.each([
    ['without a link from pki', false],
    ['with a link from pki', true],
  ])('has all its leaves renewed and lost ones made there, %s', async (_title, isLinked) => {
    await using machine = await KubeadmMachine.create('certificatesDir: /etc/kubernetes/ssl');
    if (isLinked) await symlink('ssl', machine.path('pki'));
    const files = await readdir(machine.path('ssl'), { recursive: true });
    const present = leavesIn('etc/kubernetes/ssl', ['kubelet.conf']);
    await reissueFiles(machine.root, present, past(systemClock.now()));
    const lost = [
      'apiserver.crt',
      'apiserver.key',
      'etcd/server.crt',
      'etcd/server.key',
      'etcd/healthcheck-client.crt',
    ];
    for (const name of [...lost, 'front-proxy-client.key']) await rm(machine.path('ssl', name));
    const { code, stderr } = await run(machine);
    expect(code, stderr).toBe(0);
    for (const { file } of present.filter((leaf) => leaf.key !== undefined))
      expect(await isValid(join(machine.root, file)), file).toBe(true);
    expect((await readdir(machine.path('ssl'), { recursive: true })).toSorted()).toEqual(files.toSorted());
    expect(await isThere(machine.path('pki'))).toBe(isLinked);
  });

  it('has a lost CA named where the flags want it, and nothing made in the usual directory', async () => {
    await using machine = await KubeadmMachine.create('certificatesDir: /etc/kubernetes/ssl');
    await cp(machine.path('ssl'), machine.path('pki'), { recursive: true }); // left from a former installation
    await rm(machine.path('pki/apiserver.crt'));
    await rm(machine.path('ssl/ca.key'));
    await rm(machine.path('ssl/apiserver.crt'));
    const { code, stderr } = await run(machine);
    expect(code, stderr).toBe(5);
    expect(stderr).toContain('/etc/kubernetes/ssl/apiserver.crt');
    expect(await isThere(machine.path('pki/apiserver.crt'))).toBe(false);
  });
});

describe('a machine whose components ask a load balancer of its own', { concurrent: false }, () => {
  const own = (text: string): string =>
    text
      .replace(/server: .*/, 'server: https://127.0.0.1:8443')
      .replaceAll(/(cluster|name): kubernetes$/gm, '$1: local')
      .replaceAll(/name: .*@kubernetes$/gm, 'name: own')
      .replace(/current-context: .*/, 'current-context: own')
      .replaceAll(/^- name: .*/gm, '- name: component')
      .replace(/user: system.*/, 'user: component');
  const names = ['controller-manager.conf', 'scheduler.conf'];

  it('has their kubeconfigs renewed, whatever their names are', async () => {
    await using machine = await KubeadmMachine.create();
    await reissueFiles(
      machine.root,
      leaves.filter(({ name }) => name !== 'kubelet.conf'),
      past(systemClock.now()),
    );
    for (const name of names) await writeFile(machine.path(name), own(await readFile(machine.path(name), 'utf8')));
    const { code, stderr } = await run(machine);
    expect(code, stderr).toBe(0);
    for (const name of names) {
      expect((await endOf(machine.path(name)))?.getTime(), name).toBeGreaterThan(Date.now());
      expect(await readFile(machine.path(name), 'utf8')).toContain('server: https://127.0.0.1:8443');
    }
  });

  it('keeps the kubeconfig of another cluster, byte by byte', async () => {
    await using machine = await KubeadmMachine.create();
    await using other = await KubeadmMachine.create();
    await reissueFiles(
      other.root,
      leaves.filter(({ name }) => names.includes(name)),
      past(systemClock.now()),
    );
    const texts = await Promise.all(names.map(async (name) => own(await readFile(other.path(name), 'utf8'))));
    for (const [at, name] of names.entries()) await writeFile(machine.path(name), texts[at] ?? '');
    const { stderr } = await run(machine);
    for (const [at, name] of names.entries())
      expect(await readFile(machine.path(name), 'utf8'), stderr).toBe(texts[at]);
  });
});
