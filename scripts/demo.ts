// The story in one terminal, on real components: a control plane whose certificates live in Secrets and ConfigMaps is
// switched off until everything but localhost-recovery has expired, switched on, and comes back by itself. Then, where
// nodes in containers can be had, the same of a node that kubeadm made.
import { execFileSync } from 'node:child_process';
import { runDemo } from '../test/support/cluster/demo.ts';

const forNodes = ['dockerd', 'debootstrap'];

/** Commands that are not on this machine. */
function missing(commands: readonly string[]): readonly string[] {
  return commands.filter((command) => {
    try {
      execFileSync('sh', ['-c', `command -v ${command}`], { stdio: 'ignore' });
      return false;
    } catch {
      return true;
    }
  });
}

process.exitCode = await runDemo({ out: process.stdout, keep: process.argv.includes('--keep') });
const absent = missing(forNodes);
if (absent.length > 0) {
  console.log(`\nNot shown: a dead node of kubeadm. That needs a machine with ${absent.join(' and ')}.`);
} else if (process.exitCode === 0) {
  const { runNodeDemo } = await import('../test/support/node/demo.ts');
  process.exitCode = await runNodeDemo({ out: process.stdout });
}
