// A wrong setting of one entry: a run repairs everything else, says what it has left out, and exits with 2; what only looks
// refuses it with the same list.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { X509Certificate } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { run } from '../../cmd/cli.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';

let directory: string;
let certificates: Readonly<Record<string, string>>;
const at = (name: string): string => join(directory, name);

/** Two leaves that have expired, and a source of one of them that is wrong. */
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'wrong-setting-'));
  const ca = await createAuthority(at('ca'), { commonName: 'ca' });
  const ended = { notBefore: new Date('2020-01-01T00:00:00Z'), notAfter: new Date('2020-02-01T00:00:00Z') };
  const target = async (name: string): Promise<string> => {
    const { cert, key } = await createLeaf(at(name), ca, { commonName: name, usages: ['clientAuth'], ...ended });
    certificates = { ...certificates, [name]: cert };
    return `    - kind: target
      name: ${name}
      location: { pemPair: { certFile: ${cert}, keyFile: ${key} } }
      issuer: ca
      template: present
      usage: client
      commonName: ${name}
      validity: 365d
      refresh: 292d`;
  };
  await writeFile(
    at('config.yaml'),
    `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
modes: [regen]
regen:
  backupDir: ${at('backups')}
  lockDir: ${at('lock')}
  clockSynchronised: true
  sources:
    one: { pemPair: { certFile: one.crt, keyFile: /one.key } }
inventory:
  name: own
  artefacts:
    - kind: signer
      name: ca
      location: { pemPair: { certFile: ${ca.cert}, keyFile: ${ca.key} } }
      owned: false
      validity: 3650d
      refresh: 2920d
${await target('one')}
${await target('two')}
`,
  );
});
afterEach(() => rm(directory, { recursive: true, force: true }));

async function ran(...argv: readonly string[]): Promise<{ readonly exit: number; readonly err: string }> {
  const err: string[] = [];
  const exit = await run({
    argv: [...argv, '--config=config.yaml'],
    env: {},
    cwd: directory,
    stdout: { write: () => undefined },
    stderr: { write: (text: string) => void err.push(text) },
    signal: new AbortController().signal,
  });
  return { exit, err: err.join('') };
}

const problem = (): string =>
  `${at('config.yaml')} line 9: regen.sources.one.pemPair.certFile: must be an absolute path without "..", got "one.crt"`;
const isValid = async (name: string): Promise<boolean> =>
  new Date(new X509Certificate(await readFile(certificates[name] ?? '')).validTo) > new Date();

it.each([
  ['status', ['status']],
  ['a dry run', ['--once', '--dry-run']],
])('%s refuses it', async (_, argv) => {
  const { exit, err } = await ran(...argv);
  expect([exit, err.split('\n').slice(0, 2)]).toEqual([
    2,
    ['Cannot use the configuration: 1 problem', `  ${problem()}`],
  ]);
  expect(await isValid('two')).toBe(false);
});

it('a run repairs everything, and ends with it', async () => {
  const { exit, err } = await ran('--once');
  expect([await isValid('one'), await isValid('two')]).toEqual([true, true]);
  const lines = err.trim().split('\n');
  expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ event: 'process.failed', err: `left out: ${problem()}` });
  expect(exit).toBe(2);
});
