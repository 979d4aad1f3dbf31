// CA flags that lead to a copy of a CA or to a bundle of several: the signer is where its key is, and a bundle must hold the CAs of
// those whom its component meets.
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { X509Certificate } from 'node:crypto';
import { systemClock } from '../../lib/clock.ts';
import { expireFlagged, ownDirectory, placeBelow, runOn, tellComponents } from '../support/cluster/flagged-machine.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';

let whole: KubeadmMachine;
let stranger: KubeadmMachine;
beforeAll(async () => {
  [whole, stranger] = await Promise.all([KubeadmMachine.create(), KubeadmMachine.create()]);
});
afterAll(async () => {
  await Promise.all([whole, stranger].map((one) => one?.[Symbol.asyncDispose]()));
});

const pki = '/etc/kubernetes/pki';
const bundle = `${ownDirectory}/trusted.crt`;

/** A copy of the machine whose own directory holds these certificates, the expired ones of its leaves behind it. */
async function machineWith(
  files: readonly (readonly [from: KubeadmMachine, name: string])[],
  words: Readonly<Record<string, readonly string[]>>,
): Promise<KubeadmMachine> {
  const machine = await whole.copy();
  await expireFlagged(machine, () => false);
  await mkdir(placeBelow(machine, ownDirectory));
  const texts = await Promise.all(files.map(([from, name]) => readFile(from.path('pki', name), 'utf8')));
  await writeFile(placeBelow(machine, bundle), texts.join(''));
  await tellComponents(machine, words);
  return machine;
}

const isValid = async (machine: KubeadmMachine, name: string): Promise<boolean> =>
  new X509Certificate(await readFile(machine.path('pki', name))).validToDate > systemClock.now();

const signers = [
  ['the CA of the cluster', 'kube-apiserver', 'client-ca-file', 'ca.crt', ['apiserver.crt']],
  ['the CA of etcd', 'etcd', 'trusted-ca-file', 'etcd/ca.crt', ['etcd/server.crt', 'apiserver-etcd-client.crt']],
  [
    'the CA of the aggregator',
    'kube-apiserver',
    'requestheader-client-ca-file',
    'front-proxy-ca.crt',
    ['front-proxy-client.crt'],
  ],
] as const;

describe.each(signers)('%s', (_title, component, flag, name, leaves) => {
  it.each([
    ['a copy', false],
    ['a bundle with another CA', true],
  ])(`signs with the key that is here, where --${flag} names %s`, async (_case, isBundle) => {
    const files = isBundle
      ? ([
          [stranger, 'ca.crt'],
          [whole, name],
        ] as const)
      : ([[whole, name]] as const);
    await using machine = await machineWith(files, { [component]: [`--${flag}=${bundle}`] });
    const { code, stderr } = await runOn(machine, '--mode=regen', '--once');
    expect(code, stderr).toBe(0);
    for (const leaf of leaves) expect(await isValid(machine, leaf), leaf).toBe(true);
  });

  it('is reported where its flag names a bundle without it', async () => {
    await using machine = await machineWith([[stranger, 'ca.crt']], { [component]: [`--${flag}=${bundle}`] });
    const { code, stderr } = await runOn(machine, '--mode=regen', '--once');
    expect(code, stderr).toBe(5);
    expect(stderr).toContain(`${component}-${flag}: it does not hold the CA by which ${component} --${flag} must know`);
    for (const leaf of leaves) expect(await isValid(machine, leaf), leaf).toBe(true);
  });

  it('is left to those who have its key, where no key is on this machine', async () => {
    await using machine = await machineWith([[whole, name]], { [component]: [`--${flag}=${bundle}`] });
    await rm(machine.path('pki', name.replace('.crt', '.key')));
    const { code, stderr } = await runOn(machine, '--mode=regen', '--once');
    expect(code, stderr).toBe(5);
    for (const leaf of leaves) expect(await isValid(machine, leaf), leaf).toBe(false);
  });
});

describe('a CA flag', () => {
  it('that names a serving certificate with its chain makes no signer of it', async () => {
    await using machine = await machineWith([], { 'kube-apiserver': [`--client-ca-file=${pki}/apiserver.crt`] });
    const { stderr } = await runOn(machine, '--mode=regen', '--once');
    for (const name of ['apiserver.crt', 'apiserver-kubelet-client.crt'])
      expect(await isValid(machine, name), stderr).toBe(true);
  });

  it('leads to the key that another flag names', async () => {
    await using machine = await machineWith([], {
      'kube-controller-manager': [`--cluster-signing-key-file=${ownDirectory}/signer.key`],
    });
    await copyFile(machine.path('pki/ca.key'), placeBelow(machine, `${ownDirectory}/signer.key`));
    await rm(machine.path('pki/ca.key'));
    const { code, stderr } = await runOn(machine, '--mode=regen', '--once');
    expect(code, stderr).toBe(0);
    expect(await isValid(machine, 'apiserver.crt')).toBe(true);
  });

  it.each([
    ['kube-apiserver', 'etcd-cafile', 'etcd-server'],
    ['kube-controller-manager', 'root-ca-file', 'apiserver'],
  ])('of %s, --%s, is reported where what it names does not hold the CA of %s', async (component, flag, met) => {
    await using machine = await machineWith([[stranger, 'ca.crt']], { [component]: [`--${flag}=${bundle}`] });
    const { code, stderr } = await runOn(machine, '--mode=regen', '--once');
    expect(code, stderr).toBe(5);
    expect(stderr).toContain(`by which ${component} --${flag} must know ${met}`);
    expect(await isValid(machine, 'apiserver.crt')).toBe(true);
  });

  it('is reported where it names another CA of this machine than the one of its server', async () => {
    await using machine = await machineWith([], { 'kube-apiserver': [`--etcd-cafile=${pki}/ca.crt`] });
    const { code, stderr } = await runOn(machine, '--mode=regen', '--once');
    expect(code, stderr).toBe(5);
    expect(stderr).toContain('must know etcd-server');
  });
});
