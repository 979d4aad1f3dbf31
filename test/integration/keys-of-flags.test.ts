// Keys that flags name and that are written by nobody here: those by which kube-controller-manager signs certificates and
// tokens, and a second key of a certificate. A component does not start without the right one, or issues what nobody accepts.
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ownDirectory, placeBelow, runOn, tellComponents } from '../support/cluster/flagged-machine.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';

let whole: KubeadmMachine;
beforeAll(async () => {
  whole = await KubeadmMachine.create();
});
afterAll(() => whole?.[Symbol.asyncDispose]());

const pki = '/etc/kubernetes/pki';
const own = (name: string): string => `${ownDirectory}/${name}`;
/** Names below `pki`; a text is the content of a file of its own. */
type Files = Readonly<Record<string, { readonly from: string } | { readonly text: string }>>;

async function machineWith(files: Files, words: Readonly<Record<string, readonly string[]>>): Promise<KubeadmMachine> {
  const machine = await whole.copy();
  await mkdir(placeBelow(machine, ownDirectory));
  for (const [name, content] of Object.entries(files)) {
    const place = placeBelow(machine, own(name));
    if ('from' in content) await copyFile(machine.path('pki', content.from), place);
    else await writeFile(place, content.text);
  }
  await tellComponents(machine, words);
  return machine;
}

/** The bytes of every file of the machine that a component may read. */
async function contentOf(machine: KubeadmMachine): Promise<Readonly<Record<string, string>>> {
  const names = await readdir(machine.path(), { recursive: true, withFileTypes: true });
  const files = names.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
  return Object.fromEntries(
    await Promise.all(files.map(async (file) => [file, await readFile(file, 'utf8')] as const)),
  );
}

/** What `status` and a repair say, which leaves everything as it is. */
async function reportOf(machine: KubeadmMachine): Promise<{ code: number; text: string }> {
  const before = await contentOf(machine);
  const status = await runOn(machine, 'status');
  const { code, stderr } = await runOn(machine, '--mode=regen', '--once');
  expect(await contentOf(machine)).toEqual(before);
  expect(code, stderr).toBe(status.code);
  return { code, text: `${status.stdout}${stderr}`.replaceAll(String.raw`\"`, '"') };
}

const damaged = { text: '-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n' };
const states = [
  ['is absent', {}],
  ['is damaged', { 'signing.key': damaged }],
  ['belongs to another CA', { 'signing.key': { from: 'front-proxy-ca.key' } }],
] as const satisfies readonly (readonly [string, Files])[];
const signing = [
  ['the cluster', 'cluster-signing', []],
  [
    'serving kubelets',
    'cluster-signing-kubelet-serving',
    ['--cluster-signing-cert-file=', '--cluster-signing-key-file='],
  ],
] as const;

describe.each(signing)('the signing key for %s', (_title, flag, more) => {
  const words = (key: string, cert = `${pki}/ca.crt`) => ({
    'kube-controller-manager': [...more, `--${flag}-cert-file=${cert}`, `--${flag}-key-file=${key}`],
  });

  it.each(states)('is reported where it %s', async (_case, files) => {
    await using machine = await machineWith(files, words(own('signing.key')));
    const { code, text } = await reportOf(machine);
    expect(code, text).toBe(5);
    expect(text).toContain(
      `"${own('signing.key')}" (kube-controller-manager --${flag}-key-file) must be the key of the certificate in ` +
        `"${pki}/ca.crt" (--${flag}-cert-file): bring that key, or correct the flag`,
    );
  });

  it.each(states)('beside a certificate of its own is reported where it %s', async (_case, files) => {
    const certificate = { 'signing.crt': { from: 'ca.crt' } };
    await using machine = await machineWith(
      { ...certificate, ...files },
      words(own('signing.key'), own('signing.crt')),
    );
    const { code, text } = await reportOf(machine);
    expect(code, text).toBe(5);
    expect(text).toContain(own('signing.key'));
  });

  it('is well as a copy of the right one', async () => {
    await using machine = await machineWith({ 'signing.key': { from: 'ca.key' } }, words(own('signing.key')));
    const { code, text } = await reportOf(machine);
    expect(code, text).toBe(0);
  });
});

describe('the key of the CA in its usual place', () => {
  it('is reported where it is gone and kube-controller-manager is to sign with it', async () => {
    await using machine = await machineWith({}, {});
    await rm(machine.path('pki/ca.key'));
    const { code, text } = await reportOf(machine);
    expect(code, text).toBe(5);
    expect(text).toContain(`"${pki}/ca.key" (kube-controller-manager --cluster-signing-key-file)`);
  });

  it('may be elsewhere where kube-controller-manager signs nothing, as kubeadm configures it for an external CA', async () => {
    const nothing = ['--cluster-signing-cert-file=', '--cluster-signing-key-file='];
    await using machine = await machineWith({}, { 'kube-controller-manager': nothing });
    await rm(machine.path('pki/ca.key'));
    const { code, text } = await reportOf(machine);
    expect(code, text).toBe(0);
  });
});

describe('the key of tokens', () => {
  const flag = '--service-account-private-key-file';
  const ofManager = (name: string) => ({ 'kube-controller-manager': [`${flag}=${own(name)}`] });

  it.each([
    ['is absent', {}],
    ['is damaged', { 'sa.key': damaged }],
    ['is none that kube-apiserver knows', { 'sa.key': { from: 'ca.key' } }],
  ] as const satisfies readonly (readonly [string, Files])[])('is reported where it %s', async (_case, files) => {
    await using machine = await machineWith(files, ofManager('sa.key'));
    const { code, text } = await reportOf(machine);
    expect(code, text).toBe(5);
    expect(text).toContain(
      `"${own('sa.key')}" (kube-controller-manager ${flag}) must be the key of "${pki}/sa.pub" ` +
        '(kube-apiserver --service-account-key-file)',
    );
  });

  const several = (...names: readonly string[]) => ({
    'kube-apiserver': names.map((name) => `--service-account-key-file=${name}`),
  });

  it('is well where one of several keys that kube-apiserver knows is its own', async () => {
    const files = { 'sa.key': { from: 'sa.key' }, 'former.pub': { from: 'front-proxy-client.crt' } } as const;
    const words = { ...ofManager('sa.key'), ...several(own('former.pub'), `${pki}/sa.pub`) };
    await using machine = await machineWith(files, words);
    const { code, text } = await reportOf(machine);
    expect(code, text).toBe(0);
  });

  it('is well where kube-apiserver knows it by the key itself', async () => {
    await using machine = await machineWith({}, several(`${pki}/sa.key`));
    const { code, text } = await reportOf(machine);
    expect(code, text).toBe(0);
  });

  it.each([
    [
      'none of several keys that kube-apiserver knows is its own',
      { 'a.pub': { from: 'ca.crt' }, 'b.pub': { from: 'front-proxy-ca.crt' } },
    ],
    ['one of the others cannot be read', { 'a.pub': { from: 'sa.pub' }, 'b.pub': { text: 'hello\n' } }],
    ['one of the others is absent', { 'a.pub': { from: 'sa.pub' } }],
  ] as const satisfies readonly (readonly [string, Files])[])('is reported where %s', async (_case, files) => {
    await using machine = await machineWith(files, several(own('a.pub'), own('b.pub')));
    const { code, text } = await reportOf(machine);
    expect(code, text).toBe(5);
    expect(text).toContain('kube-apiserver --service-account-signing-key-file');
    expect(text).toContain(own('a.pub'));
    expect(text).toContain(own('b.pub'));
  });
});

describe('a second key of a certificate', () => {
  const sni = (key: string) => ({ 'kube-apiserver': [`--tls-sni-cert-key=${pki}/apiserver.crt,${key}`] });

  it.each([
    ['is absent', {}],
    ['is damaged', { 'second.key': damaged }],
    ['belongs to another certificate', { 'second.key': { from: 'front-proxy-client.key' } }],
  ] as const satisfies readonly (readonly [string, Files])[])('is reported where it %s', async (_case, files) => {
    await using machine = await machineWith(files, sni(own('second.key')));
    const { code, text } = await reportOf(machine);
    expect(code, text).toBe(5);
    expect(text).toContain(
      `"${own('second.key')}" (kube-apiserver --tls-sni-cert-key) must be the key of the certificate in "${pki}/apiserver.crt"`,
    );
  });

  it('is reported where it is that of a certificate which another flag names', async () => {
    await using machine = await machineWith({}, sni(`${pki}/front-proxy-client.key`));
    const { code, text } = await reportOf(machine);
    expect(code, text).toBe(5);
    expect(text).toContain(`"${pki}/front-proxy-client.key" (kube-apiserver --tls-sni-cert-key)`);
  });

  it('of another component is reported', async () => {
    const words = [`--tls-cert-file=${pki}/apiserver.crt`, `--tls-private-key-file=${pki}/front-proxy-client.key`];
    await using machine = await machineWith({}, { 'kube-scheduler': words });
    const { code, text } = await reportOf(machine);
    expect(code, text).toBe(5);
    expect(text).toContain(`"${pki}/front-proxy-client.key" (kube-scheduler --tls-private-key-file)`);
  });

  it('of the server of etcd is reported where it is for peers', async () => {
    const words = [`--peer-cert-file=${pki}/etcd/server.crt`, `--peer-key-file=${pki}/etcd/peer.key`];
    await using machine = await machineWith({}, { etcd: words });
    const { code, text } = await reportOf(machine);
    expect(code, text).toBe(5);
    expect(text).toContain(`"${pki}/etcd/peer.key" (etcd --peer-key-file)`);
  });

  it('in the place of the first is repaired or reported', async () => {
    const words = [`--tls-cert-file=${pki}/apiserver.crt`, `--tls-private-key-file=${pki}/front-proxy-client.key`];
    await using machine = await machineWith({}, { 'kube-apiserver': words });
    const { code, text } = await reportOf(machine);
    expect(code, text).toBe(5);
    expect(text).toContain(`${pki}/front-proxy-client.key`);
  });
});
