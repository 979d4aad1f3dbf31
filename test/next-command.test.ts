import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { nextCommand } from '../lib/next-command.ts';
import { withoutComments } from './support/project/architecture.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

describe('nextCommand()', () => {
  it('has the flags that were given, in their order, each value with the flag of its own', () => {
    const flags = { '--preset': 'kubeadm', '--purge': true, '--force': false, '--out': undefined };
    expect(nextCommand('uninstall', { ...flags, '--directory': ['a=/x', 'b=/y'] })).toBe(
      'kube-cert-recovery uninstall --preset=kubeadm --purge --directory=a=/x --directory=b=/y',
    );
  });

  it('is read by a shell as it is meant', () => {
    const values = ['/a b/c', "it's", '$HOME', '`id`', 'a"b', 'a\nb', '*', '', 'ü', '--x=y z'];
    for (const value of values) {
      const typed = nextCommand('', { '--out': value }).replace('kube-cert-recovery', "printf '%s\\0'");
      expect(execFileSync('sh', ['-c', typed]).toString()).toBe(`--out=${value}\0`);
    }
  });

  it('makes every command that a message names', () => {
    const spelled = /kube-cert-recovery (?:init|uninstall|status|restore|worker|preset|renew-worker|--mode)\b/;
    // What is written into files, and the usage.
    const others = new Set(['cmd/cli.ts', 'lib/install/host.ts', 'lib/install/command-of-pod.ts']);
    const found = globSync('{cmd,lib}/**/*.ts', { cwd: root }).filter(
      (path) => !others.has(path) && spelled.test(withoutComments(readFileSync(`${root}/${path}`, 'utf8'))),
    );
    expect(found).toEqual([]);
  });
});
