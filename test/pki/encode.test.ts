import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';

it('loads what signs again when that failed once', () => {
  const encode = new URL('../../lib/pki/encode.ts', import.meta.url).href;
  const script = `
    import { closeSync, openSync } from 'node:fs';
    const { prepareSigning } = await import(${JSON.stringify(encode)});
    const open = [];
    try { for (;;) open.push(openSync('/dev/null')); } catch {}
    const told = [await prepareSigning().then(() => 'loaded', ({ code }) => code)];
    for (const descriptor of open) closeSync(descriptor);
    told.push(await prepareSigning().then(() => 'loaded', ({ code }) => code));
    console.log(told.join());`;
  const limited = ['-c', 'ulimit -n 256; exec "$0" --input-type=module -e "$1"', process.execPath, script];
  const { stdout, stderr } = spawnSync('sh', limited, { encoding: 'utf8', timeout: 30_000 });
  expect(stderr).toBe('');
  expect(stdout).toMatch(/^(EMFILE|ERR_\w+),loaded\n$/); // by which file met it first
});
