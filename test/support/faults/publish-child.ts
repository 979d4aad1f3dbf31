// A process to be killed: publishes one object without end, with each number a new pair, now and then with another key,
// and every few numbers goes back to plain files so that the next publish takes them over.
// Usage: node publish-child.ts <directory> <first number> [<last number>]. Prints each number once it is published.
import { writeSync } from 'node:fs';
import { prune, publish } from '../../../lib/publish/writer.ts';
import { giveBack } from '../../../lib/publish/unpublish.ts';

const [directory = '', first = '1', last = 'Infinity'] = process.argv.slice(2);
const what = 'Secret "a/serving"';
const mode = 0o600;

function entriesOf(generation: number): Record<string, Uint8Array> {
  const keys = ['tls.crt', 'tls.key', ...(generation % 3 === 0 ? ['ca.crt'] : [])];
  return Object.fromEntries(keys.map((key) => [key, Buffer.from(`${key} ${generation}\n${'x'.repeat(5000)}\n`)]));
}

await prune({ directory, what });
for (let generation = Number(first); generation <= Number(last); generation += 1) {
  await publish({ directory, what, entries: entriesOf(generation), mode });
  writeSync(1, `${generation}\n`);
  if (generation % 7 === 0) await giveBack({ directory, what, mode });
}
