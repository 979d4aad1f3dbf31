import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const asRoot = process.getuid?.() === 0 ? [] : ['--map-root-user'];

it('processesInPod() finds the component of this pod, and not one in a PID namespace below', async () => {
  const child = join(import.meta.dirname, 'pid-namespaces.ts');
  const unshare = [...asRoot, '--mount', '--pid', '--fork', '--mount-proc', '--kill-child', process.execPath, child];
  const { stdout } = await promisify(execFile)('unshare', unshare, { timeout: 20_000 });
  expect(JSON.parse(stdout)).toEqual({ visible: 2, isOurs: [true] });
}, 25_000);
