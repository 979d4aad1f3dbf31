import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from '../../cmd/cli.ts';
import { exitCodes, exitOfError } from '../../cmd/exit-codes.ts';
import { programText } from '../../lib/program.ts';
import { flagRows } from '../../lib/config/flags.ts';
import { type ErrorCode, errorCodes, RecoveryError } from '../../lib/errors.ts';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'cli-'));
});
afterAll(() => {
  rmSync(directory, { recursive: true });
});

interface Result {
  readonly exit: number;
  readonly out: string;
  readonly err: string;
}

async function cli(...argv: readonly string[]): Promise<Result> {
  const out: string[] = [];
  const err: string[] = [];
  const exit = await run({
    argv,
    env: {},
    cwd: directory,
    stdout: { write: (text) => out.push(text) },
    stderr: { write: (text) => err.push(text) },
    signal: new AbortController().signal,
  });
  return { exit, out: out.join(''), err: err.join('') };
}

describe('run()', () => {
  it.each(['--version', '-V'])('prints version, commit and date of the build for %s', async (flag) => {
    expect(await cli(flag)).toEqual({ exit: exitCodes.done, out: `${programText}\n`, err: '' });
  });

  it.each([['-h'], ['--help'], ['help'], ['status', '-h'], ['help', 'init']])(
    'prints help for %s %s',
    async (...argv) => {
      const { exit, out, err } = await cli(...argv.filter((one) => one !== undefined));
      expect({ exit, err }).toEqual({ exit: exitCodes.done, err: '' });
      expect(out).toMatch(/^Usage: kube-cert-recovery/);
      expect(out).toContain('--destination-dir <path>');
    },
  );

  it.each(flagRows)('shows $usage in the help of its command, $owner', async ({ owner, usage, help }) => {
    const { out } = await cli(...(owner === 'all' || owner === 'modes' ? [] : owner.split(' ')), '--help');
    expect(out).toContain(`  ${usage} `);
    expect(out.replaceAll(/\s+/g, ' ')).toContain(help);
  });

  it.each([
    [
      'init host',
      ['--server', '--kubeconfig', '--namespace', '--accept-ca', '--once', '--mode'],
      ['--window', '--out'],
    ],
    ['uninstall host', ['--part', '--purge', '--kubeconfig', '--renew-before'], ['--directory', '--out', '--dry-run']],
    ['status', ['--mode', '--once', '--restart', '--signers', '--listen'], ['--kubeconfig', '--renew-before']],
    ['verify', ['--mode', '--renew-before', '--component'], ['--kubeconfig', '--directory']],
    ['preset', ['--config', '--kubeconfig', '--mode'], ['--version']],
  ])('shows in the help of %s no flag that it does not use', async (command, hidden, shown) => {
    const { out } = await cli(...command.split(' '), '--help');
    const flags = [...out.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, flag]) => flag);
    for (const flag of hidden) expect(flags).not.toContain(flag);
    expect(flags).toEqual(expect.arrayContaining(shown));
    expect((await cli('help', ...command.split(' '))).out).toBe(out);
  });

  it.each([
    ['an unknown flag', ['--mod=regen'], "unknown option '--mod'\n(Did you mean --mode?)", 'status|'],
    [
      'an unknown flag of a command',
      ['status', '--outptu=json'],
      "unknown option '--outptu'\n(Did you mean --output?)",
      'status [options]',
    ],
    ['an unknown command', ['statsu'], "unknown command 'statsu'\n(Did you mean status?)", 'status|'],
    ["others' word for a command", ['install', 'host'], "command 'install'\n(Did you mean init host?)", 'status|'],
    ["others' word for a flag", ['-v'], "command '-v'\n(Did you mean --version?)", 'status|'],
    ['no command', [], 'Usage', 'status|'],
    [
      'an unknown command below another',
      ['init', 'rendr'],
      "unknown command 'rendr'\n(Did you mean render?)",
      'init [render|adopt|host|',
    ],
    ['an argument too many', ['status', 'all'], "too many arguments for 'status'", 'status [options]'],
    ['no argument', ['explain'], "missing required argument 'name'", 'explain [options] <name>'],
    ['a flag without its value', ['--mode'], "option '--mode <modes>' argument missing", 'status|'],
    ['a wrong value', ['init', 'host', '--wait=4'], '--wait: must be a duration', 'init host [options]'],
  ])('refuses %s with a suggestion and the usage of what was meant', async (_title, argv, message, shown) => {
    const { exit, out, err } = await cli(...argv);
    expect({ exit, out }).toEqual({ exit: exitCodes.usage, out: '' });
    expect(err).toContain(message);
    expect(err).toContain(`Usage: kube-cert-recovery ${shown}`);
  });

  it.each([
    ['init host', '--executable=gone', '--executable: must name the program'],
    ['status', '--at=2027-05-31', '--wait: must be left out with --at'],
  ])('takes --wait of %s without a value, also before another flag', async (command, other, only) => {
    const { exit, err } = await cli(...command.split(' '), '--wait', other);
    expect({ exit, lines: err.split('\n').indexOf('') }).toEqual({ exit: exitCodes.usage, lines: 2 });
    expect(err).toContain(only);
  });

  it('tells all problems of flags and file together, then the usage', async () => {
    writeFileSync(
      join(directory, 'bad.yaml'),
      'apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\nlgo: {}\n',
    );
    const { exit, out, err } = await cli('--mode=regn', '--config=bad.yaml', '--preset=kubernets');
    expect({ exit, out }).toEqual({ exit: exitCodes.usage, out: '' });
    expect(err.split('\n').slice(0, 5)).toEqual([
      'Cannot use the configuration: 3 problems',
      '  --mode: must be one of regen, syncer, approver, got "regn" (did you mean "regen"?)',
      `  ${join(directory, 'bad.yaml')} line 3: lgo: unknown key (did you mean "log"?)`,
      '  --preset: must be a known preset, got "kubernets" (did you mean "kubernetes"?)',
      '',
    ]);
    expect(err).toContain('Usage: kube-cert-recovery');
  });

  it.each(['init', 'uninstall'])('refuses for a pod to run %s host and change nothing', async (command) => {
    const { exit, err } = await cli(command, 'host', '--from-pod', '--dry-run', '--check');
    expect(exit).toBe(exitCodes.usage);
    for (const flag of ['--dry-run', '--check']) expect(err).toContain(`  ${flag}: must be left out: with --from-pod`);
  });

  it('prints nothing on which a terminal would act', async () => {
    const { err } = await cli('status\u001B[2J\u202E');
    expect(err).toContain('status\\u001b[2J\\u202e');
    expect((await cli('status', '--config=\u009B2J\u202E')).err).not.toMatch(/[\u009B\u202E]/);
  });

  it('names a configuration file that cannot be read', async () => {
    const { exit, err } = await cli('--config=gone.yaml');
    expect(exit).toBe(exitCodes.usage);
    expect(err).toContain(`Cannot read configuration "${join(directory, 'gone.yaml')}": ENOENT`);
  });

  it.each([
    [
      'the form of static pods',
      [
        '--kubeconfig=/k',
        '--namespace=other',
        '--destination-dir=/d',
        '--tls-server-name-override=localhost-recovery',
        '-v=4',
      ],
    ],
    [
      'values in arguments of their own',
      [
        '--kubeconfig',
        '/k',
        '-n',
        'other',
        '--destination-dir',
        '/d',
        '--tls-server-name-override',
        'localhost-recovery',
        '--v',
        '4',
      ],
    ],
    [
      'short and other names',
      [
        '--kubeconfig=/k',
        '-n=other',
        '--destination-dir=/d',
        '--tls-server-name-override=localhost-recovery',
        '--log-level=debug',
        '--logging-format=json',
      ],
    ],
  ])('takes flags in %s', async (_title, argv) => {
    const { err } = await cli('--mode=syncer', '--once', '--preset=openshift-kube-scheduler', ...argv);
    const loaded = err.split('\n').find((line) => line.includes('config.loaded')) ?? '{}';
    expect(JSON.parse(loaded)).toMatchObject({
      config: {
        modes: [{ mode: 'syncer', kubeconfig: '/k', destinationDir: '/d' }],
        inventory: 'openshift-kube-scheduler',
        tlsServerNameOverride: 'localhost-recovery',
        log: { level: 'debug' },
      },
    });
  });

  it('says nothing of its configuration when a timer starts it every minute', async () => {
    const flags = ['--kubeconfig=/k', '-n=other', '--destination-dir=/d'];
    const { err } = await cli('--mode=syncer', '--once', '--preset=openshift-kube-scheduler', ...flags);
    expect(err).toContain('process.failed');
    expect(err).not.toMatch(/process\.started|config\.loaded/);
  });

  it('tells problems of flags of status and of the configuration together', async () => {
    const { exit, err } = await cli(
      'status',
      '-o',
      'jsn',
      '--at=2027-02-30',
      '--log-format=xml',
      '--preset=kubernetes',
    );
    expect(exit).toBe(exitCodes.usage);
    const paths = err.split('\n').flatMap((line) => /^ {2}([^:]+):/.exec(line)?.[1] ?? []);
    expect(paths).toEqual(['--output', '--at', '--log-format', 'parameters.apiServerHostnames']);
  });

  it.each(['config', 'inventory'])('prints the JSON Schema of %s', async (which) => {
    const { exit, out } = await cli('schema', which);
    expect(exit).toBe(exitCodes.done);
    expect(JSON.parse(out)).toMatchObject({ type: 'object', additionalProperties: false });
  });
});

describe('exit codes', () => {
  it('of errors are those of the table', () => {
    const exitOf = (code: ErrorCode): number => exitOfError(new RecoveryError(code, ''));
    const known: readonly number[] = [exitCodes.failed, exitCodes.usage];
    for (const code of errorCodes) expect(known).toContain(exitOf(code));
    expect(exitOf('ConfigInvalid')).toBe(exitCodes.usage);
    expect(exitOf('InventoryInvalid')).toBe(exitCodes.usage);
  });
});
