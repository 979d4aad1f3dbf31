// The demo: the story told with the lines of the real program and the times at which they came. It ends with an
// independent look: openssl, kubectl, a signed CSR, an aggregated API, a pod that is scheduled.
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { checkRecovered } from './checks.ts';
import { type Line, RecoveryWorld, type Tool } from './recovery-world.ts';

export interface DemoOptions {
  readonly out: { write(text: string): unknown };
  /** Leave the directory and the processes until a signal comes. */
  readonly keep: boolean;
}

interface StatusRow {
  readonly name: string;
  readonly state: string;
  readonly reason: string;
  readonly location: string;
  readonly expirationDate?: string;
  readonly onDisk?: 'same' | 'different' | 'missing';
  readonly inUse?: { readonly state: 'proven' | 'unproven' | 'notApplicable'; readonly message: string };
}
interface Status {
  readonly status: string;
  readonly certificates: readonly StatusRow[];
  readonly certificateAuthorities: readonly StatusRow[];
  readonly objects: readonly StatusRow[];
}

const provenWithinMs = 90_000;

export async function runDemo({ out, keep }: DemoOptions): Promise<number> {
  const began = performance.now();
  const say = (text: string): void => void out.write(`${seconds(performance.now() - began).padStart(7)}  ${text}\n`);
  const title = (text: string): void => void out.write(`\n${text}\n`);

  title('1. A control plane whose certificates live in Secrets and ConfigMaps');
  await using world = await RecoveryWorld.create({ say });
  const { controlPlane } = world;
  const first = world.startTool();
  await until(first, ({ event }) => event === 'api.answered');
  say(`kube-cert-recovery --mode=regen,syncer runs; status: ${(await statusOf(world)).status}`);
  await first.stop();

  title('2. Switched off. Everything but localhost-recovery expires, etcd included');
  await world.expireAll();
  await controlPlane.kill();
  say('no process runs; every other certificate has really ended an hour ago, signers too');
  const before = new Map<string, string>();

  title('3. Switched on. Nobody touches anything (milliseconds since power on)');
  const on = performance.now();
  const tell = (line: Line): void => {
    const text = story(line);
    if (text !== undefined) out.write(`${String(Math.round(line.at - on)).padStart(7)}  ${text}\n`);
    if (line.event === 'rotation.decided') before.set(String(line.fields['artefact']), String(line.fields['reason']));
  };
  await world.healHost(tell); // as a unit before the kubelet does
  const tool = world.startTool([], tell);
  await controlPlane.start({ wait: false });
  await until(tool, ({ event }) => event === 'recovery.finished');
  await controlPlane.ready();

  await settled(world, ({ onDisk = 'same' }) => onDisk === 'same'); // a check reads the files

  title('4. Others agree');
  for await (const check of checkRecovered(world)) say(check);

  title('5. Every artefact');
  const final = await settled(world, isGood);
  const rows = [...final.certificateAuthorities, ...final.certificates, ...final.objects];
  out.write(table(rows, before));
  out.write('(- : not published to disk; nobody outside can see its use)\n');
  const bad = rows.filter((row) => !isGood(row));
  for (const row of bad) say(`NOT WELL: ${row.name}: ${row.state} ${row.reason} ${row.inUse?.message ?? ''}`);
  say(bad.length === 0 ? 'The control plane came back by itself.' : 'The control plane did not come back.');
  if (keep) await stay(world, say);
  await tool.stop();
  return bad.length === 0 ? 0 : 1;
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

/** What a line of the program says to a person; undefined for what is no part of the story. */
function story({ event, fields }: Line): string | undefined {
  const name = String(fields['artefact'] ?? fields['secret'] ?? fields['configMap'] ?? fields['lease'] ?? '');
  switch (event) {
    case 'api.waiting':
      return `the API does not answer yet (${String(fields['code'])})`;
    case 'api.answered':
      return 'the API answers the recovery identity for the first time';
    case 'lease.released':
      return `lease released: ${name} (${String(fields['message'])})`;
    case 'signer.regenerated':
      return `signer      ${name}`;
    case 'caBundle.updated':
      return `CA bundle   ${name}`;
    case 'copy.updated':
      return `copy        ${name}`;
    case 'target.regenerated':
      return `certificate ${name}, until ${String(fields['notAfter'] ?? '')}`;
    case 'recovery.finished':
      return `recovery finished: ${String(fields['count'] ?? '')} written in ${String(fields['duration'] ?? '')} ms`;
    case 'sync.written':
      return `on disk     ${name}`;
    case 'lease.skipped':
      return `lease kept: ${name} (${String(fields['reason'])})`;
    case 'proof.succeeded':
      if (String(fields['message']).includes('(expired')) return undefined; // what was on disk before
      return `in use      ${name}: ${String(fields['message'] ?? '')}`;
    default:
      return undefined;
  }
}

async function until(tool: Tool, wanted: (line: Line) => boolean): Promise<void> {
  const deadline = performance.now() + 120_000;
  while (!tool.lines.some(wanted)) {
    const ended = await Promise.race([tool.ended, delay(20, 'running')]);
    if (ended !== 'running') throw new Error(`the program ended with exit code ${String(ended)}`);
    if (performance.now() > deadline) throw new Error('the program did not get there within two minutes');
  }
}

/** Good: valid, on disk as in the API, and its use proven wherever it can be seen. */
function isGood({ state, onDisk = 'same', inUse }: StatusRow): boolean {
  return state === 'OK' && onDisk === 'same' && inUse?.state !== 'unproven';
}

async function statusOf(world: RecoveryWorld): Promise<Status> {
  return JSON.parse((await world.status('--output=json')).stdout) as Status;
}

/** The status once all rows are so, or as it is when the time is over. */
async function settled(world: RecoveryWorld, wanted: (row: StatusRow) => boolean): Promise<Status> {
  const deadline = performance.now() + provenWithinMs;
  for (;;) {
    const status = await statusOf(world);
    const rows = [...status.certificates, ...status.certificateAuthorities, ...status.objects];
    if (rows.every(wanted) || performance.now() > deadline) return status;
    await delay(500);
  }
}

function table(rows: readonly StatusRow[], before: ReadonlyMap<string, string>): string {
  const use = { proven: 'yes', unproven: 'no', notApplicable: '-' } as const;
  const lines = [
    ['ARTEFACT', 'BEFORE', 'NOW', 'EXPIRES', 'ON DISK', 'IN USE'],
    ...rows.map((row) => [
      row.name,
      before.get(row.name) ?? 'valid',
      row.state,
      row.expirationDate?.slice(0, 10) ?? '',
      diskText(row),
      row.inUse === undefined ? '-' : use[row.inUse.state],
    ]),
  ];
  const widths = (lines[0] ?? []).map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)));
  return lines
    .map(
      (line) =>
        `${line
          .map((cell, i) => cell.padEnd((widths[i] ?? 0) + 2))
          .join('')
          .trimEnd()}\n`,
    )
    .join('');
}

/** Signers' keys and the like are never written to disk; what has its location there needs no copy. */
function diskText({ location, onDisk }: StatusRow): string {
  if (onDisk !== undefined) return onDisk === 'same' ? 'yes' : onDisk;
  return /^(Secret|ConfigMap)/.test(location) ? '-' : 'yes';
}

async function stay(world: RecoveryWorld, say: (text: string) => void): Promise<void> {
  say(`kept until Ctrl-C: KUBECONFIG=${world.rendered.kubeconfigs['admin'] ?? ''}`);
  await new Promise<void>((done) => void process.once('SIGINT', () => done()));
}
