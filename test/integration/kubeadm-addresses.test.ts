// Machines that the real kubeadm made, in networks whose interfaces are chosen: certificates hold the addresses that the flags
// and kubeconfigs of the machine itself demand, nothing is made by guess, and an address that is gone is reported.
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { advertiseAddress, KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';

const exec = promisify(execFile);
const [gateway, other] = ['10.0.2.15', '10.9.0.5'];

let whole: KubeadmMachine;
beforeAll(async () => {
  whole = await KubeadmMachine.create();
});
afterAll(() => whole?.[Symbol.asyncDispose]());

const namesOf = async (file: string): Promise<string | undefined> =>
  new X509Certificate(await readFile(file)).subjectAltName;

/** With these names alone, whichever people gave it. */
async function sign(machine: KubeadmMachine, pair: string, names: string, authority = 'ca', days = 365): Promise<void> {
  const [file, ca] = [machine.path('pki', pair), machine.path('pki', authority)];
  const [request, extensions] = [join(machine.root, 'request.pem'), join(machine.root, 'extensions')];
  await writeFile(
    extensions,
    `subjectAltName=${names}\nextendedKeyUsage=serverAuth${pair.startsWith('etcd') ? ',clientAuth' : ''}\n`,
  );
  await exec('openssl', ['req', '-new', '-key', `${file}.key`, '-subj', '/CN=node1', '-out', request]);
  const signer = ['-CA', `${ca}.crt`, '-CAkey', `${ca}.key`, '-set_serial', '7', '-extfile', extensions];
  await exec('openssl', ['x509', '-req', '-in', request, ...signer, '-days', String(days), '-out', `${file}.crt`]);
}

async function replaceIn(file: string, from: string, to: string): Promise<void> {
  await writeFile(file, (await readFile(file, 'utf8')).replaceAll(from, to));
}

/** Neither manifests nor kubeconfigs nor certificates say what the address is. */
async function forgetAddress(machine: KubeadmMachine): Promise<void> {
  await rm(machine.path('manifests'), { recursive: true });
  const lost = ['admin', 'super-admin', 'controller-manager', 'scheduler', 'kubelet'].map((name) => `${name}.conf`);
  for (const name of lost) await rm(machine.path(name));
  for (const pair of ['apiserver', 'etcd/server', 'etcd/peer']) await rm(machine.path('pki', `${pair}.crt`));
}

describe('the addresses that a machine demands', { concurrent: false }, () => {
  it.each([
    ['apiserver', 'ca'],
    ['etcd/server', 'etcd/ca'],
    ['etcd/peer', 'etcd/ca'],
  ])('are added to a valid %s that lacks them, which keeps the names that people gave it', async (pair, authority) => {
    await using machine = await whole.copy();
    machine.interfaces = { eth0: gateway, eth1: advertiseAddress };
    await sign(machine, pair, 'DNS:kept.example.com', authority);
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    const names = (await namesOf(machine.path('pki', `${pair}.crt`)))?.split(', ');
    expect(names).toEqual(['DNS:kept.example.com', `IP Address:${advertiseAddress}`]);
  });

  it('are those by which its components reach its API server', async () => {
    await using machine = await whole.copy();
    machine.interfaces = { eth0: advertiseAddress, eth1: other };
    await replaceIn(machine.path('controller-manager.conf'), `https://${advertiseAddress}:`, `https://${other}:`);
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    expect(await namesOf(machine.path('pki/apiserver.crt'))).toContain(`IP Address:${other}`);
  });

  it('count while the interface is down where another file names the same', async () => {
    await using machine = await whole.copy();
    await sign(machine, 'apiserver', 'DNS:kept.example.com');
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    expect(await namesOf(machine.path('pki/apiserver.crt'))).toContain(`IP Address:${advertiseAddress}`);
  });

  it('are none that a manifest alone names', async () => {
    await using machine = await whole.copy();
    machine.interfaces = { eth0: advertiseAddress };
    await replaceIn(
      machine.path('manifests/kube-apiserver.yaml'),
      `--advertise-address=${advertiseAddress}`,
      '--advertise-address=192.0.2.77',
    );
    const before = await readFile(machine.path('pki/apiserver.crt'), 'utf8');
    await machine.regen();
    expect(await readFile(machine.path('pki/apiserver.crt'), 'utf8')).toBe(before);
  });

  it('are reported and not added where the key of the CA is elsewhere', async () => {
    await using machine = await whole.copy();
    machine.interfaces = { eth0: advertiseAddress };
    await sign(machine, 'apiserver', 'DNS:kept.example.com');
    await rm(machine.path('pki/ca.key'));
    const before = await readFile(machine.path('pki/apiserver.crt'), 'utf8');
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(5);
    expect(stderr).toContain(`it does not hold ${advertiseAddress}`);
    expect(await readFile(machine.path('pki/apiserver.crt'), 'utf8')).toBe(before);
  });
});

describe('an address that nothing on the machine names', { concurrent: false }, () => {
  it('is not guessed where there are several, and is known again when a witness is back', async () => {
    await using machine = await whole.copy();
    machine.interfaces = { eth0: gateway, eth1: advertiseAddress };
    await forgetAddress(machine);
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(1);
    for (const text of ['HostnameUnknown', gateway, advertiseAddress, '--parameter advertiseAddress=ADDRESS'])
      expect(stderr).toContain(text);
    for (const pair of ['apiserver', 'etcd/server', 'etcd/peer'])
      await expect(readFile(machine.path('pki', `${pair}.crt`))).rejects.toThrow('ENOENT');
    await writeFile(machine.path('scheduler.conf'), await readFile(whole.path('scheduler.conf')));
    const again = await machine.regen();
    expect(again.code, again.stderr).toBe(0);
    for (const pair of ['apiserver', 'etcd/server', 'etcd/peer']) {
      const names = await namesOf(machine.path('pki', `${pair}.crt`));
      expect(names).toContain(`IP Address:${advertiseAddress}`);
      expect(names).not.toContain(gateway);
    }
  });

  it('is the only one that the machine has, whatever the interfaces of containers have', async () => {
    await using machine = await whole.copy();
    machine.interfaces = { eth0: gateway, docker0: '172.17.0.1', cni0: '10.244.0.1' };
    await forgetAddress(machine);
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    expect(await namesOf(machine.path('pki/apiserver.crt'))).toContain(`IP Address:${gateway}`);
  });
});

describe('an address that the machine has no more', { concurrent: false }, () => {
  it('is reported by a run and by status, and what is renewed keeps its names', async () => {
    await using machine = await whole.copy();
    machine.interfaces = { eth0: gateway };
    const gone = `${advertiseAddress} is no address of this machine`;
    await sign(machine, 'apiserver', `DNS:kept.example.com,IP:${advertiseAddress}`, 'ca', -1);
    const { stderr } = await machine.regen();
    expect(stderr.trimEnd().split('\n').slice(-2).join('\n')).toContain(gone);
    const renewed = new X509Certificate(await readFile(machine.path('pki/apiserver.crt')));
    expect(renewed.validToDate.getTime()).toBeGreaterThan(Date.now());
    expect(renewed.subjectAltName).toBe(`DNS:kept.example.com, IP Address:${advertiseAddress}`);
    const { code, stdout } = await machine.status();
    expect(code, stdout).toBe(3);
    expect(stdout).toContain(gone);
    expect(stdout).toContain('--advertise-address');
    expect(stdout).not.toContain('as it should be');
    machine.interfaces = { eth0: gateway, eth1: advertiseAddress };
    const back = await machine.status();
    expect(back.code, back.stdout).toBe(0);
    expect(back.stdout).not.toContain('no address of this machine');
  });
});
