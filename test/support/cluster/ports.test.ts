import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { freePorts } from './ports.ts';

/** Of 15,000: were they chosen by chance alone, some would be chosen by both. */
const many = 700;

it('gives no port to two processes', async () => {
  const library = new URL('./ports.ts', import.meta.url).href;
  const script = `
    const { freePorts } = await import(${JSON.stringify(library)});
    console.log(JSON.stringify(await freePorts(${many})));
    await new Promise((resolve) => process.stdin.once('end', resolve).resume());`;
  const other = promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script]);
  const theirs = new Promise<readonly number[]>((resolve) => {
    let text = '';
    other.child.stdout?.on('data', (chunk: string) => {
      text += chunk;
      if (text.endsWith('\n')) resolve(JSON.parse(text) as number[]);
    });
  });
  const all = [...(await freePorts(many)), ...(await theirs)];
  other.child.stdin?.end();
  await other;
  expect(new Set(all).size).toBe(2 * many);
});
