// Hostile inputs for every reader (test/fuzz), until a time is over or something is found:
//   npm run fuzz                               a seed of its own, a minute
//   npm run fuzz -- --seed=7 --seconds=600     the same inputs each time, as many as there is time for
//   npm run fuzz -- --reader=request           one reader
//   npm run fuzz -- --reader=request --input=FILE   what a run has written
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { fuzz, problemOf, slowness, written } from '../test/fuzz/fuzz.ts';
import { readers } from '../test/fuzz/readers.ts';

const { values: options } = parseArgs({
  options: {
    seed: { type: 'string', default: `${Math.floor(Math.random() * 1e9)}` },
    seconds: { type: 'string', default: '60' },
    reader: { type: 'string' },
    input: { type: 'string' },
  },
});
const chosen = readers.filter(({ name }) => options.reader === undefined || name === options.reader);
if (chosen.length === 0)
  throw new Error(`no reader "${options.reader}"; there are ${readers.map(({ name }) => name).join(', ')}`);
const say = (text: string): void => void process.stdout.write(`${text}\n`);

const slower = slowness();
if (options.input !== undefined) {
  for (const reader of chosen) {
    const problem = await problemOf(reader, readFileSync(options.input), slower);
    say(`${reader.name}: ${problem ?? 'nothing found'}`);
    if (problem !== undefined) process.exitCode = 1;
  }
} else {
  const seed = Number(options.seed);
  const until = performance.now() + Number(options.seconds) * 1000;
  say(`seed ${seed}, ${chosen.length} readers, this machine is ${slower.toFixed(1)} times slower than usual`);
  const step = 20;
  const found = new Set<string>();
  let from = 0;
  do {
    for (const reader of chosen) {
      if (found.has(reader.name)) continue;
      const findings = await fuzz([reader], { seed, from, count: step, slower });
      for (const line of written(findings)) say(line);
      if (findings.length > 0) found.add(reader.name);
    }
    from += step;
  } while (performance.now() < until && found.size < chosen.length);
  say(`${from} inputs for each reader, ${found.size} findings`);
  if (found.size > 0) process.exitCode = 1;
}
