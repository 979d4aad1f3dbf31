import { fstatSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { LogFormat } from '../../lib/log.ts';
import { processLog } from '../../lib/run/process-log.ts';

/** Where this process writes its errors, as systemd names it. */
const { dev, ino } = fstatSync(2);
const journal = { JOURNAL_STREAM: `${dev}:${ino}` };

interface Place {
  readonly isTTY?: boolean;
  readonly env?: Readonly<Record<string, string>>;
  readonly format?: LogFormat;
}

function logged({ isTTY = false, env = {}, format }: Place, level: 'info' | 'warn' = 'info'): string {
  const lines: string[] = [];
  const log = processLog({ stderr: { write: (line) => lines.push(line), isTTY }, env }, { level, format });
  log.info('process.started', { version: '1' });
  return lines.join('');
}

describe('processLog()', () => {
  it.each<[string, Place, RegExp]>([
    ['JSON where nothing else is known', {}, /^\{"level":"info",.*"event":"process.started"\}\n$/],
    ['text on a terminal', { isTTY: true }, /^\S+ INFO {2}process\.started .*version=1\n$/],
    ['lines with a priority for the journal', { env: journal }, /^<\d>.*process\.started.*\n$/],
    ['lines for the journal, also on a terminal', { env: journal, isTTY: true }, /^<\d>/],
    ['JSON where the journal reads another stream', { env: { JOURNAL_STREAM: '1:1' } }, /^\{/],
    ['what was asked for', { env: journal, isTTY: true, format: 'json' }, /^\{/],
  ])('writes %s', (_, place, wanted) => {
    expect(logged(place)).toMatch(wanted);
  });

  it('leaves out what is below its level', () => {
    expect(logged({}, 'warn')).toBe('');
  });
});
