// Lines of the log, whose values are texts of others: each stays one line, and hides no other.
import { describe, expect, it } from 'vitest';
import { createLog, type LogFormat } from '../lib/log.ts';

function linesOf(csr: string, format: LogFormat): string {
  let out = '';
  const log = createLog({ format, write: (line) => (out += line) });
  log.warn('csr.pending', { csr, reason: 'SubjectUnsuitable', node: 'node-1' });
  log.info('csr.approved', { csr: 'next' });
  return out;
}

const names = [
  '-----BEGIN X-----',
  '-----BEGIN X-----" \\',
  'a -----BEGIN A----- b -----END A----- c -----BEGIN B-----',
  'line\u2028separator\u2029',
  'two\nlines',
];

describe('a value that looks like PEM, or ends a line', () => {
  it.each(names)('hides nothing else as JSON: %j', (name) => {
    const lines = linesOf(name, 'json').split(/[\n\u2028\u2029]/);
    const [first, second, ...rest] = lines.slice(0, -1).map((line) => JSON.parse(line) as Record<string, string>);
    expect(first).toMatchObject({ event: 'csr.pending', reason: 'SubjectUnsuitable', node: 'node-1' });
    expect(second).toMatchObject({ event: 'csr.approved', csr: 'next' });
    expect(rest).toEqual([]);
    expect(first?.['csr']).toBe(
      name.replace(/-----BEGIN A-----.*-----END A-----/, '[PEM removed]').replace(/-----BEGIN.*/, '[PEM removed]'),
    );
  });

  it.each(names)('hides nothing else as text: %j', (name) => {
    const [first, second, ...rest] = linesOf(name, 'text').split(/[\n\u2028\u2029]/);
    expect(first).toMatch(/ WARN  csr\.pending csr=.* reason=SubjectUnsuitable node=node-1$/);
    expect(second).toMatch(/ INFO  csr\.approved csr=next$/);
    expect(rest).toEqual(['']);
    expect(first).not.toContain('BEGIN');
  });
});

it('a line for the journal has its priority in front, and neither time nor level', () => {
  let out = '';
  const log = createLog({ format: 'journal', level: 'debug', write: (line) => (out += line) });
  log.error('rotation.failed', { artefact: 'apiserver', err: 'two\nlines' });
  log.warn('rotation.due', { artefact: 'apiserver' });
  log.info('target.regenerated', { mode: 'regen', artefact: 'apiserver', notAfter: '2027-01-01T00:00:00.000Z' });
  log.debug('process.started');
  expect(out.split('\n')).toEqual([
    String.raw`<3>rotation.failed artefact=apiserver err="two\nlines"`,
    '<4>rotation.due artefact=apiserver',
    '<5>target.regenerated artefact=apiserver notAfter=2027-01-01T00:00:00.000Z',
    '<5>process.started',
    '',
  ]);
});

it('a long value is cut off in a line for people', () => {
  const [first = ''] = linesOf('\u0085'.repeat(60_000), 'text').split('\n');
  expect(first.length).toBeLessThan(200_000);
  expect(first).toMatch(/\.\.\." reason=SubjectUnsuitable node=node-1$/);
});

it('a key is cut out of a value, in one piece or cut off', () => {
  const key = '-----BEGIN EC PRIVATE KEY-----\nc2VjcmV0\n-----END EC PRIVATE KEY-----\n';
  for (const text of [key, `before ${key} after`, key.slice(0, 40), key + key]) {
    for (const format of ['json', 'text'] as const) expect(linesOf(text, format)).not.toContain('c2Vjcm');
  }
});
