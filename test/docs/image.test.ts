// Holds docs/image.md against the files of the build. test/e2e/image.test.ts builds the image and runs it.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseConfig } from '../../lib/config/load.ts';
import { installedPresets, loadPreset } from '../../lib/inventory/preset.ts';
import { blocks, codes, firstCodes, page, root, tables } from './markdown.ts';

const text = page('docs/image.md');
const containerfile = page('Containerfile');
const commands = blocks(text)
  .filter(({ language }) => language === 'sh')
  .flatMap(({ text: block }) =>
    block
      .replaceAll(/\\\n\s*/g, '')
      .trim()
      .split('\n'),
  )
  .map((line) => line.split(' '));
const builds = commands.filter(([, command]) => command === 'build');
/** Declared in each stage that uses it. */
const declared = [
  ...new Map([...containerfile.matchAll(/^ARG (\w+)(?:=(.*))?$/gm)].map(([, name = '', given]) => [name, given])),
].map(([name, given]) => ({ name, given }));

describe('the build', () => {
  it('has the documented arguments with their defaults', () => {
    expect(firstCodes(text)).toEqual(declared.map(({ name }) => name));
    const [rows = []] = tables(text);
    const documented = rows.map(([name = '', given = '']) => [codes(name)[0], codes(given)[0]]);
    const [, ...others] = declared; // the name of a base is no text for people
    expect(documented.slice(1)).toEqual(others.map(({ name, given }) => [name, given]));
  });

  it('is run with a file and arguments that there are', () => {
    expect(builds).toHaveLength(2);
    for (const words of builds) {
      expect(words.slice(0, 4)).toEqual(['docker', 'build', '-f', 'Containerfile']);
      const given = words.flatMap((word, at) => (words[at - 1] === '--build-arg' ? [word.split('=')[0]] : []));
      expect(given.filter((name) => !declared.some((one) => one.name === name))).toEqual([]);
      expect(words.at(-1)).toBe('.');
    }
  });

  it('begins with an image that whoever builds names by digest, of the major version of Node that is asked for', () => {
    const { engines } = JSON.parse(page('package.json')) as { readonly engines: { readonly node: string } };
    const [, major] = /inspect node:(\d+)\.\d+\.\d+-\w+ /.exec(text) ?? [];
    expect(`>=${major}`).toBe(engines.node);
    expect(text).toContain(`any image of Node ${major} on Debian 12, by digest`);
    expect(declared[0]).toEqual({ name: 'BUILD_IMAGE', given: undefined });
    for (const words of builds) expect(words.join(' ')).toContain('--build-arg BUILD_IMAGE=');
  });

  it('installs without scripts of packages', () => {
    expect(page('scripts/setup.sh')).toMatch(/^ *npm ci .*--ignore-scripts /m);
    expect(page('.npmrc')).toMatch(/^ignore-scripts=true$/m);
  });

  it('is given files that there are, and no more', () => {
    const [first, ...lines] = page('.dockerignore').trim().split('\n').slice(1);
    expect(first).toBe('*');
    const paths = lines.map((line) => line.replace(/^!/, ''));
    expect(lines.filter((line) => !line.startsWith('!'))).toEqual([]);
    expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([]);
    const sources = page('scripts/build.ts') + page('scripts/program.ts');
    const used = [...sources.matchAll(/scripts\/[\w-]+\.\w+|(?<=')\.\/[\w-]+\.ts(?=';)/g)].map(([path]) =>
      path.replace(/^\.\//, 'scripts/'),
    );
    const some = ['scripts/program.ts', 'scripts/built-program.ts', 'scripts/build-stamp.ts'];
    expect(used).toEqual(expect.arrayContaining(some));
    expect(used.filter((path) => !paths.includes(path))).toEqual([]);
  });
});

it('the paths of the host are the defaults', () => {
  const flags = { preset: 'kubernetes', mode: 'regen', kubeconfig: '/k', parameter: ['apiServerHostnames=a'] };
  const { modes } = parseConfig({ flags, env: {}, cwd: '/', presets: installedPresets });
  const [mode] = modes;
  const paths = firstCodes(text, 2);
  if (mode?.mode !== 'regen') throw new Error('no regen');
  const pki = loadPreset('kubernetes').directories?.['pkiDir']?.default;
  expect(paths).toEqual(expect.arrayContaining([mode.backupDir, mode.lockDir, pki]));
});
