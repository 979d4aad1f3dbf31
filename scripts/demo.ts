// The story in one terminal, on real components: a control plane whose certificates live in Secrets and ConfigMaps is
// switched off until everything but localhost-recovery has expired, switched on, and comes back by itself.
import { runDemo } from '../test/support/cluster/demo.ts';

process.exitCode = await runDemo({ out: process.stdout, keep: process.argv.includes('--keep') });
