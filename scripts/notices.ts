// The licences of what is bundled into the program: with it go the copyright notices of its packages,
// too. Which packages those are the bundler says, so that a new one cannot be forgotten.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

const licenceFile = /^(?:licen[cs]e|copying|notice)/i;
const above = 'node_modules/';

/** Directories of the packages from which these files come, sorted by name: `/src/node_modules/@peculiar/x509`. */
export function packagesOf(files: readonly string[]): readonly string[] {
  const found = files.flatMap((file) => {
    const at = file.lastIndexOf(above);
    if (at < 0) return [];
    const [scope = '', name = ''] = file.slice(at + above.length).split('/');
    const path = scope.startsWith('@') ? `${scope}/${name}` : scope;
    return [`${file.slice(0, at + above.length)}${path}`];
  });
  // By name, because the packages of one release lie in the checkout and in the cache, which may be anywhere.
  return [...new Set(found)].toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
}

const nameOf = (directory: string): string => directory.slice(directory.lastIndexOf(above) + above.length);

/** Throws where a package neither brings the text of its licence nor says which one it has. */
export async function thirdPartyNotices(files: readonly string[]): Promise<string> {
  const parts = await Promise.all(packagesOf(files).map(noticeOf));
  const unique = [...new Set(parts)]; // the same version may lie at several places
  return `kube-cert-recovery contains parts of these packages.\n\n${unique.join('\n')}`;
}

interface PackageFile {
  readonly name?: string;
  readonly version?: string;
  readonly license?: string;
  readonly author?: string | { readonly name?: string };
}

async function noticeOf(directory: string): Promise<string> {
  const manifest = JSON.parse(await readFile(join(directory, 'package.json'), 'utf8')) as PackageFile;
  const { name = '', version = '', license, author } = manifest;
  const names = (await readdir(directory)).filter((file) => licenceFile.test(file)).toSorted();
  const texts = await Promise.all(names.map((file) => readFile(join(directory, file), 'utf8')));
  if (texts.length === 0 && license === undefined) {
    throw new Error(`Cannot build: package "${name}" (${directory}) does not say under which licence it is`);
  }
  const by = typeof author === 'string' ? author : author?.name;
  const told = texts.length > 0 ? texts : [`${license}${by === undefined ? '' : `, ${by}`}\n`];
  return `${'='.repeat(80)}\n${name} ${version} (${license ?? 'see below'})\n${'-'.repeat(80)}\n${told.map((text) => `${text.trim()}\n`).join('\n')}`;
}
