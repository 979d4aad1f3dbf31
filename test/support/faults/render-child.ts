// Runs `init render` once in a process of its own, to be killed: node render-child.ts DIRECTORY
import { join } from 'node:path';
import { systemClock } from '../../../lib/clock.ts';
import { runRender } from '../../../lib/install/render.ts';
import { loadPreset } from '../../../lib/inventory/preset.ts';
import { resolve } from '../../../lib/inventory/resolve.ts';

const [directory = ''] = process.argv.slice(2);
const resolved = resolve(loadPreset('kubernetes'), {
  parameters: { apiServerHostnames: ['127.0.0.1'] },
  directories: { pkiDir: join(directory, 'pki') },
});
process.stdout.write('started\n');
await runRender({
  resolved,
  directory: join(directory, 'out'),
  keyAlgorithm: { name: 'ECDSA', curve: 'P-256' },
  clock: systemClock,
  signal: new AbortController().signal,
});
