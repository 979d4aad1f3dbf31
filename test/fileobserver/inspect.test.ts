import { expect, test } from 'vitest';
import { compareSeen, type FileChange, type SeenFile } from '../../lib/fileobserver/inspect.ts';

const now = new Date('2026-11-21T08:00:00Z');
const earlier = new Date('2026-11-20T08:00:00Z');
const later = new Date('2026-11-22T08:00:00Z');
const path = '/a';
const present = (digest: string, changedAt = earlier): SeenFile => ({
  state: 'present',
  content: Buffer.of(),
  digest,
  changedMs: changedAt.getTime(),
});

interface Row {
  readonly before?: string;
  readonly seen: SeenFile;
  readonly changes: FileChange[];
  readonly after?: string;
}

const rows: Record<string, Row> = {
  'there at the first look': {
    seen: present('1'),
    changes: [{ change: 'found', path, digest: '1', at: earlier }],
    after: '1',
  },
  'there at the first look, from the future (the clock was set back)': {
    seen: present('1', later),
    changes: [{ change: 'found', path, digest: '1', at: now }],
    after: '1',
  },
  'not there at the first look': { seen: { state: 'absent' }, changes: [], after: 'absent' },
  'unreadable at the first look': { seen: { state: 'unreadable', code: 'EIO' }, changes: [] },
  created: {
    before: 'absent',
    seen: present('1'),
    changes: [{ change: 'created', path, digest: '1', at: now }],
    after: '1',
  },
  changed: {
    before: '1',
    seen: present('2'),
    changes: [{ change: 'changed', path, digest: '2', at: now }],
    after: '2',
  },
  unchanged: { before: '1', seen: present('1', now), changes: [], after: '1' },
  removed: { before: '1', seen: { state: 'absent' }, changes: [{ change: 'removed', path, at: now }], after: 'absent' },
  'still not there': { before: 'absent', seen: { state: 'absent' }, changes: [], after: 'absent' },
  'not readable any more': { before: '1', seen: { state: 'unreadable', code: 'EIO' }, changes: [], after: '1' },
};

test.each(Object.entries(rows))('compareSeen(): %s', (_title, { before, seen, changes, after }) => {
  const compared = compareSeen(new Map(before === undefined ? [] : [[path, before]]), new Map([[path, seen]]), now);
  expect(compared.changes).toEqual(changes);
  expect(compared.known.get(path)).toBe(after);
});
