// Time that passes for what a run has kept for later ones.
import { readFile, writeFile } from 'node:fs/promises';

/** Lets the value at this path be older by so many milliseconds. */
export async function keptEarlier(path: string, ms: number): Promise<void> {
  const record = JSON.parse(await readFile(path, 'utf8')) as { readonly at: string };
  await writeFile(path, JSON.stringify({ ...record, at: new Date(Date.parse(record.at) - ms) }));
}
