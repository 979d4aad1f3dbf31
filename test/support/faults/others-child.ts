// Runs in the namespaces of a machine: puts each kind of strange content in the places of the files that an inventory names, one
// kind after the other, and has the program repair and report. Prints what must not have happened, one JSON list of sentences.
// Usage: node others-child.ts <preset> <root> <directories as JSON> <other cluster as JSON>.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { lstat, mkdir, mkdtemp, readFile, rename, rm, rmdir, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '../../../cmd/cli.ts';
import { resolveHere } from '../../../cmd/read-config.ts';
import type { ResolvedArtefact } from '../../../lib/inventory/model.ts';
import { filesOf, isFile } from '../../../lib/inventory/places.ts';
import { loadPreset } from '../../../lib/inventory/preset.ts';
import { contentsOfOthers, type OtherCluster, type Role } from './contents-of-others.ts';

const [preset = '', root = '', directoriesJson = '', otherJson = ''] = process.argv.slice(2);
const directories = JSON.parse(directoriesJson) as Record<string, string>;
const other = JSON.parse(otherJson) as OtherCluster;
const parameters = JSON.parse(process.argv[6] ?? '{}') as Record<string, string[]>;

const violations: string[] = [];
const config = join(root, 'others.yaml');
const at = (name: string): string => join(root, name);
await writeFile(
  config,
  `apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: ${preset}\n` +
    `directories: ${directoriesJson}\nparameters: ${JSON.stringify(parameters)}\n` +
    `regen: ${JSON.stringify({ backupDir: at('backups'), lockDir: at('lock') })}\n`,
);

interface Said {
  readonly exit: number;
  readonly text: string;
}

async function ran(...argv: readonly string[]): Promise<Said> {
  const said: string[] = [];
  const write = (text: string): void => void said.push(text);
  const { signal } = new AbortController();
  const io = {
    argv: [...argv, `--config=${config}`],
    env: {},
    cwd: root,
    stdout: { write },
    stderr: { write },
    signal,
  };
  return { exit: await run(io), text: said.join('') };
}

interface Place {
  readonly path: string;
  readonly role: Role;
}

const inventory = loadPreset(preset);
const { artefacts } = await resolveHere({ inventory, environment: { directories, parameters } });
const named = artefacts.flatMap(({ name, kind, location }) => (isFile(location) ? [{ name, kind, location }] : []));
const isThere = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  );

/** The files of an entry, the first of which must be there. */
async function placesOf({ location }: Pick<ResolvedArtefact, 'location'>): Promise<readonly Place[]> {
  if (!isFile(location)) return [];
  if (location.kind === 'kubeconfig') return [{ path: location.file, role: 'kubeconfig' }];
  const files = filesOf(location).map(({ file, field }): Place => {
    return { path: file, role: field === 'keyFile' ? 'key' : 'certificate' };
  });
  return (await isThere(files[0]?.path ?? '')) ? files : [];
}

const entries = await Promise.all(named.map(async (one) => ({ ...one, places: await placesOf(one) })));
const all = entries.flatMap(({ places }) => places.map(({ path }) => path));
const bytesOf = (path: string): Promise<Buffer | undefined> => readFile(path).catch(() => undefined);
const healthy = new Map(await Promise.all(all.map(async (path) => [path, await bytesOf(path)] as const)));
const fleet = entries.filter(({ places }) => places.length > 0);

interface Choice {
  readonly turn: number;
  readonly withAuthorities: boolean;
  readonly fits: (place: Place) => boolean;
}

/** In the place of certificate, of key, or of both, in turn. */
function chosen({ turn, withAuthorities, fits }: Choice): readonly Place[] {
  return fleet.flatMap(({ kind, places }, index) => {
    if (kind === 'signer' && !withAuthorities) return [];
    const fitting = places.filter(fits);
    const which = (turn + index) % 3;
    return which < 2 && fitting[which] !== undefined ? [fitting[which]] : fitting;
  });
}

interface Judged {
  readonly name: string;
  readonly works?: true;
}

async function judge({ name, works }: Judged, touched: readonly Place[]): Promise<void> {
  const isTouched = new Set(touched.map(({ path }) => path));
  // Neither is the other half of its pair written.
  const watched = fleet.flatMap(({ places }) =>
    places.some(({ path }) => isTouched.has(path)) ? places.map(({ path }) => path) : [],
  );
  const state = async (path: string): Promise<string> => {
    const stats = await lstat(path).catch(() => undefined);
    return `${stats?.mode} ${stats?.uid} ${stats?.ino} ${(await (stats?.isFile() === true ? bytesOf(path) : undefined))?.toString('base64')}`;
  };
  const before = await Promise.all(watched.map(state));
  for (const [what, argv] of Object.entries({ run: ['--mode=regen', '--once'], status: ['status'] })) {
    const { exit, text } = await ran(...argv);
    if (exit !== 5) violations.push(`${name}: ${what} ended with ${exit}: ${text.slice(-1500)}`);
    if (text.includes('as it should be')) violations.push(`${name}: ${what} said "as it should be"`);
    const isKept = works === true && what === 'run';
    for (const { name: entry, places } of fleet) {
      const own = places.filter(({ path, role }) => isTouched.has(path) && !(isKept && role === 'kubeconfig'));
      if (own.length === 0 || own.some(({ path }) => text.includes(path))) continue;
      violations.push(`${name}: ${what} said nothing of what lies in the place of ${entry}`);
    }
  }
  const after = await Promise.all(watched.map(state));
  const changed = watched.filter((_, index) => before[index] !== after[index]);
  if (changed.length > 0) violations.push(`${name}: ${changed.join(', ')} changed`);
}

async function putBack(): Promise<void> {
  for (const [path, bytes] of healthy) {
    await rm(path, { recursive: true, force: true });
    if (bytes !== undefined) await writeFile(path, bytes, { mode: 0o600 });
  }
}

const kinds = contentsOfOthers(other);
for (const [turn, kind] of kinds.entries()) {
  const { content, isOfAnother, of = [] } = kind;
  if (violations.length > 5) break;
  const touched = chosen({
    turn,
    // Without its CA nothing tells which kubeconfigs are this machine's.
    withAuthorities: turn % 4 === 0 && isOfAnother !== true,
    fits: ({ role }) => !of.includes(role),
  });
  if (touched.length === 0) continue;
  for (const { path } of touched) await writeFile(path, content);
  await judge(kind, touched);
  await putBack();
}

/** What is no file. */
const objects: Readonly<Record<string, (path: string) => Promise<unknown>>> = {
  'a directory': (path) => mkdir(path),
  'a FIFO': async (path) => execFileSync('mkfifo', [path]),
  'a link to a device': (path) => symlink('/dev/zero', path),
  'a link to a directory': (path) => symlink('/proc', path),
  'a socket': async (path) => {
    // Its path is too long for a socket: it is made elsewhere.
    const elsewhere = await mkdtemp(join(tmpdir(), 'others-'));
    const short = join(elsewhere, 'socket');
    const server = createServer().listen(short);
    await once(server, 'listening');
    await rename(short, path);
    server.close();
    await rmdir(elsewhere);
  },
};
for (const [turn, [name, put]] of Object.entries(objects).entries()) {
  const touched = chosen({ turn, withAuthorities: turn % 2 === 0, fits: () => true });
  for (const { path } of touched) {
    await rm(path);
    await put(path);
  }
  await judge({ name }, touched);
  await putBack();
}

process.stdout.write(`${JSON.stringify({ kinds: kinds.length, places: all.length, violations })}\n`);
process.exit(0);
