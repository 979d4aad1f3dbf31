// `status` of an inventory of files that is not kubeadm's, beside what mode regen does with the same files.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { run } from '../../cmd/cli.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import { kubeconfigOf } from '../support/certificates/kubeconfig.ts';

let directory: string;
const at = (name: string): string => join(directory, name);

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'status-files-'));
  const ca = await createAuthority(at('ca'), { commonName: 'ca' });
  const ended = { notBefore: new Date('2020-01-01T00:00:00Z'), notAfter: new Date('2020-02-01T00:00:00Z') };
  const leaf = await createLeaf(at('leaf'), ca, { commonName: 'admin', usages: ['clientAuth'], ...ended });
  const data = async (file: string): Promise<string> => (await readFile(file)).toString('base64');
  const cluster = { server: 'https://127.0.0.1:6443', 'certificate-authority-data': await data(ca.cert) };
  const user = { 'client-certificate-data': await data(leaf.cert), 'client-key-data': await data(leaf.key) };
  await writeFile(at('admin.conf'), kubeconfigOf(cluster, user), { mode: 0o600 });
  await writeFile(
    at('config.yaml'),
    `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
modes: [regen]
inventory:
  name: own
  artefacts:
    - kind: signer
      name: ca
      location: { pemPair: { certFile: ${ca.cert}, keyFile: ${ca.key} } }
      owned: false
      validity: 3650d
      refresh: 2920d
    - kind: target
      name: admin
      location: { kubeconfig: { file: ${at('admin.conf')}, endpoint: controlPlane } }
      issuer: ca
      template: present
      usage: client
      commonName: admin
      validity: 365d
      refresh: 292d
regen: { backupDir: ${at('backups')}, lockDir: ${at('lock')}, clockSynchronised: true }
`,
  );
});
afterAll(() => rm(directory, { recursive: true, force: true }));

async function ran(...argv: readonly string[]): Promise<{ readonly exit: number; readonly out: string }> {
  const out: string[] = [];
  const write = (text: string): void => void out.push(text);
  const signal = new AbortController().signal;
  const exit = await run({
    argv: [...argv, '--config=config.yaml'],
    env: {},
    cwd: directory,
    stdout: { write },
    stderr: { write },
    signal,
  });
  return { exit, out: out.join('') };
}

it('says of a kubeconfig that was deleted what regen does: it comes back from its backup', async () => {
  expect(await ran('--once')).toMatchObject({ exit: 0 });
  await rm(at('admin.conf'));
  const { certificates } = JSON.parse((await ran('status', '-o', 'json')).out) as { certificates: readonly object[] };
  expect(certificates).toMatchObject([{ name: 'admin', state: 'MISSING', action: 'renew', reason: 'Absent' }]);
  expect(await ran('--once')).toMatchObject({ exit: 0 });
  expect(await readFile(at('admin.conf'), 'utf8')).toContain('client-certificate-data');
});
