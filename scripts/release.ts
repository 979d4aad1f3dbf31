// Writes the packages of a version into release/ (`npm run release`), or into an empty --out=DIRECTORY. Twice of one commit,
// they have the same bytes. V8's compiled code is left out of them: no two builds of it are equal, and a machine
// of one architecture cannot make that of another.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFile, cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';
import { type Stamp, stampOf } from './build-stamp.ts';
import { thirdPartyNotices } from './notices.ts';
import { launcher, writeProgram } from './program.ts';
import { type Architecture, architectures, lockedPackages, nodePackage } from './release/architectures.ts';
import { settle, writeArchive } from './release/archive.ts';
import { type Packed, writeImage } from './release/image.ts';
import { lockedLibraries } from './release/libraries.ts';
import { packager, writeLinuxPackages } from './release/linux-packages.ts';
import { manualPage } from './release/manual.ts';
import { provenance } from './release/provenance.ts';
import { billOfMaterials } from './release/sbom.ts';
import { stripped } from './release/strip.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const { values: asked } = parseArgs({ options: { out: { type: 'string' } } });
const out = resolve(asked.out ?? join(root, 'release'));

/** Undefined without git, or a repository. */
function fromGit(...words: readonly string[]): string | undefined {
  try {
    const all = ['-c', 'safe.directory=*', '-C', root, ...words];
    return execFileSync('git', all, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return undefined;
  }
}

/** Seconds since 1970 of the commit, or those that the environment says. */
function secondsOf({ SOURCE_DATE_EPOCH: given }: NodeJS.ProcessEnv): string {
  const seconds = given || fromGit('log', '-1', '--format=%ct');
  if (seconds !== undefined) return seconds;
  const wanted = 'set SOURCE_DATE_EPOCH to its time in seconds since 1970';
  throw new Error(`Cannot make packages: no git says when this version was made; ${wanted}`);
}

interface Parts {
  readonly nfpm: string;
  readonly stamp: Stamp;
  readonly seconds: number;
  readonly scratch: string;
  readonly bundled: readonly string[];
  readonly manual: string;
}

async function writePackages(architecture: Architecture, parts: Parts): Promise<Packed> {
  const { nfpm, stamp, seconds, scratch, bundled, manual } = parts;
  const program = join(scratch, `kube-cert-recovery-${stamp.version}-linux-${architecture}`);
  const origin = await nodePackage(root, architecture);
  const node = join(origin, 'bin/node');
  await cp(join(scratch, 'app'), join(program, 'app'), { recursive: true });
  await writeFile(join(program, 'node'), stripped(await readFile(node)));
  await writeFile(join(program, 'kube-cert-recovery'), await launcher());
  await copyFile(join(root, 'LICENSE'), join(program, 'LICENSE'));
  await writeFile(join(program, 'app/THIRD-PARTY-NOTICES'), await thirdPartyNotices([...bundled, node]));
  await settle(program);
  await Promise.all([
    writeArchive(program, `${join(out, `kube-cert-recovery-${stamp.version}-linux-${architecture}`)}.tar.gz`, seconds),
    writeLinuxPackages({ nfpm, program, architecture, stamp, manual, out }),
  ]);
  return { architecture, program, licence: join(origin, 'LICENSE') };
}

/** SHA-256 of all files by their names. */
async function sumsOf(directory: string): Promise<Readonly<Record<string, string>>> {
  const sums: Record<string, string> = {};
  for (const name of (await readdir(directory)).toSorted())
    sums[name] = createHash('sha256')
      .update(await readFile(join(directory, name)))
      .digest('hex');
  return sums;
}

const epoch = secondsOf(process.env);
const stamp = stampOf(root, { ...process.env, SOURCE_DATE_EPOCH: epoch }, new Date());
if (asked.out === undefined) await rm(out, { recursive: true, force: true });
else if ((await readdir(out).catch(() => [])).length > 0)
  throw new Error(`Cannot make packages: "${out}" is not empty`);
await mkdir(out, { recursive: true });
const scratch = await mkdtemp(join(out, '.build-'));
try {
  const nfpm = await packager();
  const { bundled } = await writeProgram(join(scratch, 'app'), stamp);
  const help = execFileSync(process.execPath, [join(scratch, 'app/main.mjs'), '--help'], { encoding: 'utf8' });
  const manual = join(scratch, 'kube-cert-recovery.8.gz');
  await writeFile(manual, gzipSync(manualPage(help, stamp)));
  const parts: Parts = { nfpm, stamp, seconds: Number(epoch), scratch, bundled, manual };
  const all = Object.keys(architectures) as readonly Architecture[];
  const packed = await Promise.all(all.map((architecture) => writePackages(architecture, parts)));
  await writeImage(join(out, `kube-cert-recovery-${stamp.version}-oci.tar`), packed, parts);
  const brought = Object.values(architectures);
  const [locked, libraries] = await Promise.all([lockedPackages(root), lockedLibraries()]);
  const bill = billOfMaterials({ root, stamp, locked, bundled, brought, libraries });
  await writeFile(join(out, `kube-cert-recovery-${stamp.version}.cdx.json`), bill);
} finally {
  await rm(scratch, { recursive: true, force: true });
}
const [commit = '', tree = ''] = (fromGit('rev-parse', 'HEAD', 'HEAD^{tree}') ?? '').split('\n');
const statement = provenance(stamp, { commit, tree }, await sumsOf(out));
await writeFile(join(out, `kube-cert-recovery-${stamp.version}.intoto.json`), statement);
const lines = Object.entries(await sumsOf(out)).map(([name, sum]) => `${sum}  ${name}\n`); // as sha256sum has it
await writeFile(join(out, 'SHA256SUMS'), lines.join(''));
console.log(lines.join(''));
