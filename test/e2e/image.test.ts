// The image of the program, built from the Containerfile, in the daemon of the suite, against a real control plane.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { getContainerRuntimeClient } from 'testcontainers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { blocks, page } from '../docs/markdown.ts';
import { eventually } from '../support/eventually.ts';
import { hardened, runProgram, startProgram, type ProgramRun } from '../support/node/program-container.ts';
import { programReference } from '../support/node/program-image.ts';
import { freePorts } from '../support/cluster/ports.ts';
import { RecoveryWorld } from '../support/cluster/recovery-world.ts';

const { version, license } = JSON.parse(page('package.json')) as { version: string; license: string };

interface LogLine {
  readonly time: string;
  readonly level: string;
  readonly event: string;
}
const parsed = ({ lines }: ProgramRun): LogLine[] => lines.map((line) => JSON.parse(line) as LogLine);
const hasLogged = (run: ProgramRun, event: string, count = 1): Promise<void> =>
  eventually(() => expect(parsed(run).filter((line) => line.event === event).length).toBeGreaterThanOrEqual(count));
const mode = (path: string): string => (statSync(path).mode & 0o7777).toString(8).padStart(4, '0');

describe('the image', () => {
  it('runs the program as root, with the limits of the launcher, and says what it is', async () => {
    const { dockerode } = (await getContainerRuntimeClient()).container;
    const { Config: config, Size: size } = await dockerode.getImage(programReference).inspect();
    const [, flags = ''] = /^flags='(.*)'$/m.exec(page('dist/kube-cert-recovery')) ?? [];
    expect(config.User).toBe('0:0');
    expect(config.Entrypoint).toEqual(['/usr/bin/node', ...flags.split(' '), '/app/main.mjs']);
    expect(config.Cmd).toBeNull();
    expect(config.Labels).toEqual({
      'org.opencontainers.image.title': 'kube-cert-recovery',
      'org.opencontainers.image.description': expect.any(String),
      'org.opencontainers.image.version': version,
      'org.opencontainers.image.revision': 'unknown', // it was built without SOURCE_COMMIT
      'org.opencontainers.image.licenses': license,
    });
    console.log(`size of the image: ${Math.round(size / 1e6)} MB`);
    expect(size).toBeLessThan(150e6);
  });

  it('has no shell and no package manager', async () => {
    for (const command of ['/bin/sh', '/bin/bash', 'npm', 'apt-get'])
      await expect(runProgram([], [command]), command).rejects.toThrow(/no such file|not found/);
  });

  it('has the licences of what it contains', async () => {
    const script = `const { readFileSync, readdirSync } = require('node:fs');
      console.log(JSON.stringify([readdirSync('/licenses'), readFileSync('/app/THIRD-PARTY-NOTICES', 'utf8')]))`;
    const { stdout } = await runProgram(['-e', script], ['/usr/bin/node']);
    const [licenses, notices] = JSON.parse(stdout) as [string[], string];
    expect(licenses).toContain('node');
    const { dependencies } = JSON.parse(page('package.json')) as { dependencies: Record<string, string> };
    for (const [name, exact] of Object.entries(dependencies)) expect(notices).toContain(`\n${name} ${exact} (`);
  });

  it('prints its version and ends with 0, run as docs/image.md runs it', async () => {
    const [block] = blocks(page('docs/image.md'));
    const [, flags = '', args = ''] = /^docker run --rm (.*) kube-cert-recovery (.*)$/m.exec(block?.text ?? '') ?? [];
    const [dropped, option] = [hardened.CapDrop[0], hardened.SecurityOpt[0]];
    expect(flags.split(' ')).toEqual(['--read-only', `--cap-drop=${dropped}`, `--security-opt=${option}`]);
    const { code, stdout, stderr } = await runProgram(args.split(' '));
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const [, named, commit, builtAt = ''] = /^(\S+) \(commit (\S+), built (\S+)\)\n$/.exec(stdout) ?? [];
    expect({ named, commit }).toEqual({ named: version, commit: 'unknown' });
    expect(Date.parse(builtAt)).toBeLessThan(Date.now());
  });

  it('answers a wrong flag with usage and ends with 2', async () => {
    const { code, stdout, stderr } = await runProgram(['--mode=syncer', '--destinationdir=/certs']);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/unknown option '--destinationdir'[^]*--destination-dir[^]*^Usage: /m);
  });
});

describe('the program in a container without capabilities, its root read-only', () => {
  let world: RecoveryWorld;
  beforeAll(async () => {
    // kube-controller-manager fills the tokens of ServiceAccounts.
    world = await RecoveryWorld.create({ components: ['etcd', 'kube-apiserver', 'kube-controller-manager'] });
  });
  afterAll(() => (world as RecoveryWorld | undefined)?.[Symbol.asyncDispose]());

  it('publishes files of root, answers /livez, writes one JSON line an event, and ends when asked to', async () => {
    const destination = await mkdtemp(join(world.root, 'destination-'));
    const [port = 0] = await freePorts(1);
    const health = `--health-probe-bind-address=127.0.0.1:${port}`;
    const args = [`--config=${world.configFile}`, '--mode=syncer', `--destination-dir=${destination}`, health];
    await using run = await startProgram(args, world.root);
    await hasLogged(run, 'sync.written', 14);

    const files = readdirSync(destination, { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.parentPath.includes('/..') && !entry.name.startsWith('.'))
      .map((entry) => join(entry.parentPath, entry.name));
    for (const file of files) expect([statSync(file).uid, statSync(file).gid], file).toEqual([0, 0]);
    const pair = join(destination, 'secrets/kube-apiserver-serving');
    const found = [pair, `${pair}/tls.key`, `${pair}/tls.crt`, join(destination, 'configmaps/client-ca/ca-bundle.crt')];
    expect(found.map(mode)).toEqual(['0755', '0600', '0600', '0644']);
    expect(readFileSync(`${pair}/tls.crt`, 'utf8')).toBe(await world.read('kube-apiserver-serving'));

    expect(await statusOf(port, '/livez')).toBe(200);
    expect(capabilitiesOf(await run.procStatus())).toEqual(['0000000000000000']);
    // Killed, as it is when it has not ended after half a minute, it has another.
    const { code, afterMs } = await run.stop();
    expect(code).toBe(0);
    console.log(`SIGTERM to the end: ${afterMs} ms`);

    for (const line of parsed(run))
      expect(line).toEqual(
        expect.objectContaining({
          time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
          level: expect.stringMatching(/^(debug|info|warn|error)$/),
          event: expect.stringMatching(/^\w+\.\w+$/),
        }),
      );
    expect(parsed(run).at(-1)?.event).toBe('process.stopped');
    expect(run.lines.join('\n')).not.toMatch(/PRIVATE KEY|eyJ/);
  });

  it('recovers with both modes in one process', async () => {
    await world.expireAll();
    await world.controlPlane.kill();
    await world.healHost();
    await using run = await startProgram([`--config=${world.configFile}`], world.root);
    await world.controlPlane.start();
    await hasLogged(run, 'recovery.finished');
    await eventually(async () => expect((await world.status()).stdout).toContain('Everything is as it should be.'));
    const [, rss] = /^VmRSS:\s+(\d+) kB$/m.exec(await run.procStatus()) ?? [];
    console.log(`RSS of syncer and regen in the container after a recovery: ${Math.round(Number(rss) / 1024)} MB`);
    expect((await run.stop()).code).toBe(0);
  });
});

function statusOf(port: number, path: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    sent.once('error', reject).end();
  });
}

/** The distinct sets that the process has: permitted, effective, bounding and so on. */
function capabilitiesOf(procStatus: string): string[] {
  const sets = procStatus.matchAll(/^Cap\w+:\s+(\w+)$/gm);
  return [...new Set([...sets].map(([, set = '']) => set))];
}
