// Flags that lead where a repair could do harm: to the key of the service accounts, to one CA for all, to one file by several
// names, to the kubeconfig of a webhook.
import { X509Certificate } from 'node:crypto';
import { copyFile, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { toYaml } from '../../lib/yaml.ts';
import {
  expireFlagged,
  ownDirectory,
  placeBelow,
  resolvedBelow,
  runOn,
  tellComponents,
} from '../support/cluster/flagged-machine.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';

let whole: KubeadmMachine;
beforeAll(async () => {
  whole = await KubeadmMachine.create();
});
afterAll(() => whole?.[Symbol.asyncDispose]());

describe('flags that lead to', () => {
  const flagged = async (machine: KubeadmMachine, words: Readonly<Record<string, readonly string[]>>) => {
    await tellComponents(machine, words);
    await expireFlagged(machine, () => false);
    return runOn(machine, '--mode=regen', '--once');
  };

  /** Expired before any component names it, so that the program need not find it for that. */
  const putExpiredPair = async (machine: KubeadmMachine): Promise<void> => {
    await expireFlagged(machine, () => false);
    await mkdir(placeBelow(machine, ownDirectory));
    for (const end of ['crt', 'key'])
      await copyFile(machine.path(`pki/apiserver.${end}`), placeBelow(machine, `${ownDirectory}/tls.${end}`));
  };

  it('never cost the key of the service accounts, which serves as the key of a certificate', async () => {
    await using machine = await whole.copy();
    await mkdir(placeBelow(machine, ownDirectory));
    for (const [from, to] of [
      ['apiserver.crt', 'kcm.crt'],
      ['apiserver.key', 'token.key'],
    ] as const) {
      await copyFile(machine.path('pki', from), placeBelow(machine, `${ownDirectory}/${to}`));
    }
    const before = await readFile(placeBelow(machine, `${ownDirectory}/token.key`));
    const key = `${ownDirectory}/token.key`;
    const { code, stderr } = await flagged(machine, {
      'kube-controller-manager': [
        `--tls-cert-file=${ownDirectory}/kcm.crt`,
        `--tls-private-key-file=${key}`,
        `--service-account-private-key-file=${key}`,
      ],
      'kube-apiserver': [`--service-account-signing-key-file=${key}`],
    });
    expect(await readFile(placeBelow(machine, key))).toEqual(before);
    expect(code, stderr).toBe(5);
    expect(stderr).toContain(`${ownDirectory}/kcm.crt`);
  });

  it('find the CA that is one for all', async () => {
    await using machine = await whole.copy();
    const pki = '/etc/kubernetes/pki';
    await rm(machine.path('manifests/etcd.yaml'));
    await rm(machine.path('pki/etcd'), { recursive: true });
    for (const end of ['crt', 'key']) {
      await copyFile(
        machine.path(`pki/apiserver-kubelet-client.${end}`),
        machine.path(`pki/apiserver-etcd-client.${end}`),
      );
      await copyFile(
        machine.path(`pki/apiserver-kubelet-client.${end}`),
        machine.path(`pki/front-proxy-client.${end}`),
      );
    }
    await tellComponents(machine, {
      'kube-apiserver': [
        `--etcd-cafile=${pki}/ca.crt`,
        `--requestheader-client-ca-file=${pki}/ca.crt`,
        '--etcd-servers=https://198.51.100.1:2379',
      ],
      'kube-controller-manager': [`--requestheader-client-ca-file=${pki}/ca.crt`],
    });
    await expireFlagged(machine, () => false);
    const { code, stderr } = await runOn(machine, '--mode=regen', '--once');
    expect(code, stderr).toBe(0);
    for (const name of ['apiserver', 'front-proxy-client', 'apiserver-etcd-client']) {
      const file = machine.path(`pki/${name}.crt`);
      expect(new X509Certificate(await readFile(file)).validToDate > systemClock.now(), name).toBe(true);
    }
  });

  it('lead to one entry where links give one file several names', async () => {
    await using machine = await whole.copy();
    await symlink('pki', machine.path('ssl'));
    for (const end of ['crt', 'key'])
      await copyFile(machine.path(`pki/apiserver.${end}`), machine.path(`pki/kcm.${end}`));
    const pair = (directory: string): string[] => [
      `--tls-cert-file=/etc/kubernetes/${directory}/kcm.crt`,
      `--tls-private-key-file=/etc/kubernetes/${directory}/kcm.key`,
    ];
    await tellComponents(machine, {
      'kube-controller-manager': pair('ssl'),
      'kube-scheduler': [...pair('pki'), '--client-ca-file=/etc/kubernetes/ssl/ca.crt'],
    });
    const { artefacts, flagsByFile } = await resolvedBelow(machine);
    const names = artefacts.map(({ name }) => name).filter((name) => /^kube-(controller-manager|scheduler)/.test(name));
    expect(names).toEqual(['kube-controller-manager-tls-cert-file']);
    expect(flagsByFile?.['/etc/kubernetes/ssl/kcm.crt']).toEqual([
      'kube-controller-manager --tls-cert-file',
      'kube-scheduler --tls-cert-file',
    ]);
  });

  it('of a webhook that asks for no certificate make no entry', async () => {
    await using machine = await whole.copy();
    await mkdir(placeBelow(machine, ownDirectory));
    const server = { name: 'hook', cluster: { server: 'https://hook.example:8443' } };
    await writeFile(
      placeBelow(machine, `${ownDirectory}/hook.conf`),
      toYaml({
        apiVersion: 'v1',
        kind: 'Config',
        clusters: [server],
        users: [{ name: 'u', user: {} }],
        contexts: [{ name: 'c', context: { cluster: 'hook', user: 'u' } }],
        'current-context': 'c',
      }),
    );
    const { code, stderr } = await flagged(machine, {
      'kube-apiserver': [`--audit-webhook-config-file=${ownDirectory}/hook.conf`],
    });
    expect(code, stderr).toBe(0);
  });

  it.each([
    ['a variable that the manifest does not set', '$(NONE)/tls.crt'],
    ['a relative path', 'etc/kubernetes/own/tls.crt'],
  ])('a file by %s are reported, and all else is repaired', async (_, value) => {
    await using machine = await whole.copy();
    const { code, stderr } = await flagged(machine, { 'kube-scheduler': [`--tls-cert-file=${value}`] });
    expect(code, stderr).toBe(5);
    expect(stderr).toContain(`Cannot find the file of kube-scheduler --tls-cert-file on this machine: \\"${value}\\"`);
    expect(new X509Certificate(await readFile(machine.path('pki/apiserver.crt'))).validToDate > systemClock.now()).toBe(
      true,
    );
    const status = await runOn(machine, 'status');
    expect(status.code, status.stdout).toBe(5);
    expect(status.stdout).not.toContain('Every certificate on disk is as it should be');
  });

  it('a file by a variable of the container are read and repaired', async () => {
    await using machine = await whole.copy();
    await putExpiredPair(machine);
    const words = ['--tls-cert-file=$(OWN)/tls.crt', '--tls-private-key-file=$(OWN)/tls.key'];
    const file = machine.path('manifests/kube-apiserver.yaml');
    const env = `    env:\n    - name: OWN\n      value: ${ownDirectory}\n    image:`;
    await writeFile(file, (await readFile(file, 'utf8')).replace('    image:', env));
    await tellComponents(machine, { 'kube-apiserver': words });
    const { code, stderr } = await runOn(machine, '--mode=regen', '--once');
    expect(code, stderr).toBe(0);
    const served = new X509Certificate(await readFile(placeBelow(machine, `${ownDirectory}/tls.crt`)));
    expect(served.validToDate > systemClock.now()).toBe(true);
  });

  it('nowhere, in a manifest that is torn, are reported, and all that has expired is repaired', async () => {
    await using machine = await whole.copy();
    await expireFlagged(machine, () => false);
    const file = machine.path('manifests/kube-apiserver.yaml');
    await writeFile(file, '\0'.repeat(64));
    const { code, stderr } = await runOn(machine, '--mode=regen', '--once');
    expect(code, stderr).toBe(5);
    expect(stderr).toContain('Cannot read the manifest \\"/etc/kubernetes/manifests/kube-apiserver.yaml\\"');
    for (const name of ['apiserver', 'apiserver-kubelet-client', 'etcd/server']) {
      const { validToDate } = new X509Certificate(await readFile(machine.path(`pki/${name}.crt`)));
      expect(validToDate > systemClock.now(), name).toBe(true);
    }
    const status = await runOn(machine, 'status');
    expect(status.code, status.stdout).toBe(5);
  });

  it('a file by a manifest that the kubelet reads elsewhere are read and repaired', async () => {
    await using machine = await whole.copy();
    await putExpiredPair(machine);
    await tellComponents(machine, {
      'kube-apiserver': [`--tls-cert-file=${ownDirectory}/tls.crt`, `--tls-private-key-file=${ownDirectory}/tls.key`],
    });
    await rename(machine.path('manifests'), placeBelow(machine, '/etc/static'));
    await mkdir(placeBelow(machine, '/var/lib/kubelet'), { recursive: true });
    const configuration = 'kind: KubeletConfiguration\nstaticPodPath: /etc/static\n';
    await writeFile(placeBelow(machine, '/var/lib/kubelet/config.yaml'), configuration);
    const { code, stderr } = await runOn(machine, '--mode=regen', '--once');
    expect(code, stderr).toBe(0);
    const served = new X509Certificate(await readFile(placeBelow(machine, `${ownDirectory}/tls.crt`)));
    expect(served.validToDate > systemClock.now()).toBe(true);
  });
});
