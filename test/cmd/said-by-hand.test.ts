// A run that a person starts says each time what is due and is left all the same, and why; one whose log the journal reads, as
// that of the units, says it once a day.
import { fstatSync } from 'node:fs';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { run } from '../../cmd/cli.ts';
import { writesToJournal } from '../../lib/host/systemd.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';

const day = 86_400_000;
let directory: string;
const at = (name: string): string => join(directory, name);

/** A CA and a leaf that ends in twenty days. */
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'said-by-hand-'));
  const ca = await createAuthority(at('ca'), { commonName: 'ca' });
  const leaf = await createLeaf(at('leaf'), ca, {
    commonName: 'a',
    usages: ['clientAuth'],
    notBefore: new Date(Date.now() - 340 * day),
    notAfter: new Date(Date.now() + 20 * day),
  });
  const pair = ({ cert, key }: { cert: string; key: string }): string =>
    `{ pemPair: { certFile: ${cert}, keyFile: ${key} } }`;
  for (const clock of ['true', 'false'])
    await writeFile(
      at(`clock-${clock}.yaml`),
      `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
modes: [regen]
inventory:
  name: own
  artefacts:
    - { kind: signer, name: ca, location: ${pair(ca)}, owned: false, validity: 3650d, refresh: 2920d }
    - kind: target
      name: leaf
      location: ${pair(leaf)}
      issuer: ca
      template: present
      usage: client
      commonName: a
      validity: 365d
      refresh: 292d
regen: { backupDir: ${at('backups')}, lockDir: ${at('lock')}, clockSynchronised: ${clock}, renewBefore: 30d }
`,
    );
});
afterAll(() => rm(directory, { recursive: true, force: true }));
beforeEach(() => rm(at('lock'), { recursive: true, force: true }));

interface Line {
  readonly event: string;
  readonly artefact?: string;
  readonly reason?: string;
  readonly message?: string;
}

async function ran(clock: boolean, flags: readonly string[], env: Record<string, string> = {}): Promise<Line[]> {
  const lines: string[] = [];
  const exit = await run({
    argv: ['--once', '--log-format=json', `--config=clock-${clock}.yaml`, ...flags],
    env,
    cwd: directory,
    stdout: { write: () => undefined },
    stderr: { write: (text: string) => void lines.push(text) },
    signal: new AbortController().signal,
  });
  expect(exit, lines.join('')).toBe(0);
  return lines.map((line) => JSON.parse(line) as Line);
}

/** A window that is shut for hours. */
function shut(): string {
  const hour = (hours: number): string => new Date(Date.now() + hours * 3_600_000).toISOString().slice(11, 16);
  return `--window=${hour(6)}-${hour(7)} UTC`;
}

describe('a run by hand says it each time', () => {
  it.each<[string, { clock?: boolean; flags: () => readonly string[]; reason: string; told: RegExp }]>([
    [
      'a clock that nobody confirms, and how to confirm it',
      {
        clock: false,
        flags: () => [],
        reason: 'ClockUnconfirmed',
        told: /its clock is not confirmed: .* timedatectl .*\(regen\.clockSynchronised: true/,
      },
    ],
    ['the window', { flags: () => [shut()], reason: 'Postponed', told: /renewed in the window, on this node at 20/ }],
    ['that it only warns', { flags: () => ['--warn-only'], reason: 'WarnOnly', told: /only reported \(warnOnly\)/ }],
    ['the window in a dry run', { flags: () => [shut(), '--dry-run'], reason: 'Postponed', told: /in the window/ }],
  ])('%s', async (_, { clock = true, flags, reason, told }) => {
    for (let times = 0; times < 3; times += 1) {
      const lines = await ran(clock, flags());
      const due = lines.filter(({ event }) => event === 'rotation.due');
      expect(due).toMatchObject([{ artefact: 'leaf', reason, message: expect.stringMatching(told) as string }]);
      expect(lines.filter(({ event }) => event === 'regen.summary')).toHaveLength(1);
    }
  });

  it('in text, where a terminal shows it', async () => {
    const lines: string[] = [];
    const stderr = { write: (text: string) => void lines.push(text), isTTY: true };
    const rest = { env: {}, cwd: directory, stdout: { write: () => undefined }, signal: new AbortController().signal };
    const once = (...flags: readonly string[]): Promise<number> =>
      run({ argv: ['--once', '--config=clock-true.yaml', shut(), ...flags], stderr, ...rest });
    for (const times of [1, 2]) {
      expect(await once()).toBe(0);
      expect(lines.filter((line) => /^20\S+ WARN +rotation\.due .*artefact=leaf/.test(line))).toHaveLength(times);
      expect(lines.filter((line) => /^20\S+ INFO +regen\.summary /.test(line))).toHaveLength(times);
    }
    lines.length = 0;
    expect(await once('--log-format=json')).toBe(0);
    expect(lines.every((line) => line.startsWith('{'))).toBe(true);
  });

  it('and keeps the units from nothing of what they say', async () => {
    await ran(false, []);
    expect((await readdir(at('lock'))).filter((name) => name.startsWith('summary'))).toEqual([]);
  });
});

it('a run of a unit says it once a day', async () => {
  const { dev, ino } = fstatSync(2);
  const env = { JOURNAL_STREAM: `${dev}:${ino}` };
  const events = (lines: readonly Line[]): string[] => lines.map(({ event }) => event);
  expect(events(await ran(false, [], env))).toContain('rotation.due');
  expect(events(await ran(false, [], env))).not.toContain('rotation.due');
  expect(events(await ran(false, []))).toContain('rotation.due');
});

it.each<[string, Record<string, string>, boolean]>([
  ['the journal reads this very stream', { JOURNAL_STREAM: '9:1234' }, true],
  ['it reads another one', { JOURNAL_STREAM: '9:1235' }, false],
  ['a shell has inherited it and writes to a terminal', { JOURNAL_STREAM: '8:1234', INVOCATION_ID: 'a' }, false],
  ['nobody has said so', {}, false],
  ['what was said is none', { JOURNAL_STREAM: '9' }, false],
])('%s', (_, env, wanted) => {
  expect(writesToJournal(env, () => ({ dev: 9, ino: 1234 }))).toBe(wanted);
});
