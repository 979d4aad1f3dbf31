// The quick start of docs/api.md, run as it is written, in its order, against a real control plane that is started with
// the flags which `init render` prints. Only directories, and the port of the API server, are replaced.
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { blocks, page, root as project, section } from '../docs/markdown.ts';
import type { ComponentName } from '../support/cluster/components.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';
import { choosePorts } from '../support/cluster/preparation.ts';
import { guard } from '../support/cluster/process.ts';

const quickStart = blocks(section(page('docs/api.md'), 'Quick start'));
const [render = '', init = '', run = '', heal = '', status = '', uninstall = ''] = quickStart
  .filter(({ language }) => language === 'sh')
  .map(({ text }) => text);
const deleteRecovery = blocks(section(page('docs/troubleshooting.md'), 'The API server cannot be verified'))
  .filter(({ language }) => language === 'sh')
  .map(({ text }) => text);

let root: string;
let port: number;
let controlPlane: ControlPlane;
let printed: string;
let running: ChildProcess | undefined;
const lines: string[] = [];

/** As written, but for what belongs to this machine. */
const here = (text: string): string =>
  text
    .replaceAll('/etc/kubernetes', join(root, 'etc'))
    .replaceAll('/var/lib/kube-cert-recovery', join(root, 'lib'))
    .replaceAll('/run/kube-cert-recovery', join(root, 'run'))
    .replaceAll('localhost:6443', `localhost:${port}`);

const out = (...parts: readonly string[]): string => join(root, 'etc/kube-cert-recovery', ...parts);

function start(command: string): ChildProcess {
  const env = { ...process.env, PATH: `${join(project, 'dist')}:${process.env['PATH'] ?? ''}` };
  // Without a shell in between a signal reaches the program.
  const script = here(command).replace(/^kube-cert-recovery/, 'exec kube-cert-recovery');
  const child = spawn('sh', ['-ec', script], { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
  guard(child);
  return child;
}

/** Standard output of a command of the page that ends. Rejects when it fails. */
async function shell(command: string): Promise<string> {
  const child = start(command);
  const texts = { out: '', err: '' };
  child.stdout?.on('data', (data: Buffer) => (texts.out += data.toString()));
  child.stderr?.on('data', (data: Buffer) => (texts.err += data.toString()));
  const code = await new Promise((done) => void child.once('close', done));
  if (code !== 0) throw new Error(`${here(command)}\nended with exit code ${String(code)}\n${texts.out}${texts.err}`);
  return texts.out;
}

/** The flags of each component in what `init render` prints for people. */
function printedFlags(text: string): Partial<Record<ComponentName, Record<string, string | string[]>>> {
  const flags: Record<string, Record<string, string | string[]>> = {};
  let component = '';
  for (const line of text.split('\n')) {
    const [, flag, value = ''] = /^ {2}--([a-z-]+)=(.*)$/.exec(line) ?? [];
    if (/^[a-z-]+$/.test(line)) component = line;
    if (flag === undefined) continue;
    const own = (flags[component] ??= {});
    const before = own[flag];
    own[flag] = before === undefined ? value : [before, value].flat();
  }
  return flags;
}

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'readme-'));
  const ports = await choosePorts();
  port = ports.apiserver;
  const [settings] = quickStart.filter(({ language }) => language === 'yaml');
  await mkdir(join(root, 'etc'));
  await writeFile(join(root, 'etc/recovery.yaml'), here(settings?.text ?? ''));
  printed = await shell(render);
  const bundle = out('certs/configmaps/kube-apiserver-server-ca/ca-bundle.crt');
  controlPlane = await startControlPlane({
    components: ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler'],
    ownPki: false,
    trust: { servingCa: bundle, recoveryCa: bundle },
    ports,
    directory: join(root, 'plane'),
    restarts: 20,
    flags: printedFlags(printed),
  });
});
afterAll(async () => {
  running?.kill('SIGKILL');
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true, maxRetries: 5 });
});

const has = (event: string, ...texts: readonly string[]): boolean =>
  lines.some((line) => line.includes(`"event":"${event}"`) && texts.every((text) => line.includes(text)));
const waitFor = (event: string, ...texts: readonly string[]): Promise<void> =>
  eventually(() => {
    if (!has(event, ...texts)) throw new Error(`no ${event} ${texts.join(' ')} in\n${lines.slice(-15).join('')}`);
  });

const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8).padStart(4, '0');

describe('the quick start', () => {
  it('has its six steps, one command each', () => {
    expect(quickStart.map(({ language }) => language)).toEqual(['yaml', 'sh', 'sh', 'sh', 'sh', 'sh', 'sh']);
    for (const { language, text } of quickStart)
      if (language === 'sh') expect(text).toMatch(/^kube-cert-recovery (?:.* \\\n {2})*.*\n$/);
  });

  it('1. init render prints the flags with which a control plane runs', async () => {
    expect(printed).toContain('Start the components with these flags besides your own:');
    expect((await controlPlane.admin('/readyz')).status).toBe(200);
    expect(await shell(render)).toContain('Wrote 0 artefacts and files');
  });

  it('2. init uploads it, deletes the staging directory, and is done the second time', async () => {
    const text = await shell(init);
    expect(text).toContain("The staging directory with the signers' keys was removed.");
    expect(text).toContain(`Run now: ${here(run).trim()}\n`);
    expect(existsSync(out('staging'))).toBe(false);
    expect(await shell(init)).toContain('Created 0 objects, updated 0;');
  });

  it('is the command that init render has printed for later, as it is typed', async () => {
    const [, next = ''] = /^When the API answers, run: (.*)$/m.exec(printed) ?? [];
    expect(await shell(next)).toContain('Created 0 objects, updated 0;');
  });

  it('leaves the modes that the table below it states', () => {
    const found = {
      config: mode(out('config.yaml')),
      generation: mode(out('generation.json')),
      kubeconfig: mode(out('kubeconfigs/admin.kubeconfig')),
      credentials: mode(out('credentials/regen')),
      token: mode(out('credentials/regen/token')),
      key: mode(out('certs/secrets/kubelet-client/tls.key')),
      bundle: mode(out('certs/configmaps/client-ca/ca-bundle.crt')),
      directory: mode(out('certs/secrets/kubelet-client')),
    };
    expect(found).toEqual({
      config: '0644',
      generation: '0644',
      kubeconfig: '0600',
      credentials: '0700',
      token: '0600',
      key: '0600',
      bundle: '0644',
      directory: '0755',
    });
  });

  it('3. both modes run, and bring back what was deleted', async () => {
    const before = await readFile(out('certs/secrets/kubelet-client/tls.crt'), 'utf8');
    await controlPlane.kubectl('delete', 'secret', 'kubelet-client', '-n', 'kube-cert-recovery');
    running = start(run);
    running.stderr?.on('data', (data: Buffer) => lines.push(data.toString()));
    await waitFor('target.regenerated', '"kubelet-client"');
    await waitFor('sync.written', 'kube-cert-recovery/kubelet-client');
    await waitFor('proof.succeeded', '"kube-scheduler-client"');
    expect(readFileSync(out('certs/secrets/kubelet-client/tls.crt'), 'utf8')).not.toBe(before);
  });

  it('5. status finds nothing wrong', async () => {
    const text = await shell(status);
    expect(text).toContain('Everything is as it should be.');
    for (const name of ['kube-apiserver-serving', 'localhost-recovery-serving', 'kube-scheduler-client'])
      expect(text).toMatch(new RegExp(`^${name} .* yes +yes$`, 'm'));
  });

  it('ends with exit code 0 when it is asked to', async () => {
    const ended = new Promise((done) => void running?.once('close', done));
    running?.kill('SIGTERM');
    expect(await ended).toBe(0);
    expect(has('process.stopped')).toBe(true);
  });

  it('4. the files that the API cannot heal are made before the control plane starts', async () => {
    await controlPlane.kill();
    const lost = ['apiserver-etcd-client.crt', 'apiserver-etcd-client.key', 'etcd/server.crt', 'etcd/server.key'];
    for (const file of lost) await rm(join(root, 'etc/pki', file));
    await shell(heal);
    expect(lost.filter((file) => !existsSync(join(root, 'etc/pki', file)))).toEqual([]);
    await controlPlane.start();
    expect((await controlPlane.admin('/readyz')).status).toBe(200);
  });

  it('localhost-recovery is renewed by hand as the page on troubleshooting says', async () => {
    const path = out('certs/secrets/localhost-recovery-serving/tls.crt');
    const before = readFileSync(path, 'utf8');
    const [command = ''] = deleteRecovery;
    await controlPlane.kubectl(...command.trim().split(' ').slice(1));
    lines.length = 0;
    running = start(run);
    running.stderr?.on('data', (data: Buffer) => lines.push(data.toString()));
    await waitFor('signer.regenerated', '"localhost-recovery-serving-signer"');
    await waitFor('sync.written', 'kube-cert-recovery/localhost-recovery-serving');
    expect(readFileSync(path, 'utf8')).not.toBe(before);
    await eventually(async () => expect((await controlPlane.admin('/readyz')).status).toBe(200));
    await eventually(async () => expect(await shell(status)).toContain('Everything is as it should be.'));
    running.kill('SIGTERM');
  });

  it('6. uninstall takes identities and rights away, and leaves the certificates', async () => {
    const text = await shell(uninstall);
    expect(text).toContain('Removed ServiceAccount "kube-cert-recovery/kube-cert-recovery-regen"');
    expect(existsSync(out('credentials'))).toBe(false);
    expect(existsSync(out('certs/secrets/kubelet-client/tls.crt'))).toBe(true);
    const again = await shell(uninstall);
    expect(again).toMatch(/^Nothing to remove\.\nWhat certificates in use need stays in the API:\n/);
    expect(again).toContain('  ClusterRoleBinding "kube-cert-recovery-kubelet-client", without which');
    const [, next = ''] = /^When no component reads them any more, remove them: (.*)$/m.exec(again) ?? [];
    expect(await shell(next)).toContain('Removed ClusterRoleBinding "kube-cert-recovery-kubelet-client"');
  });
});
