import { expect, test } from 'vitest';
import { decideReaction } from '../../lib/fileobserver/react.ts';
import type { Reader } from '../../lib/inventory/model.ts';

const reloads: Reader = { component: 'kas', needs: 'nothing', proof: { kind: 'served', serverName: 'localhost' } };
const silent: Reader = { component: 'kubectl', needs: 'nothing', proof: { kind: 'none' } };
const restarts: Reader = { component: 'kcm', needs: 'restart', proof: { kind: 'lease', namespace: 'a', name: 'b' } };

type ReactionFacts = Parameters<typeof decideReaction>[0];

const rows: Record<string, [given: Partial<ReactionFacts>, want: object]> = {
  'a reader that reloads by itself': [{ readers: [reloads] }, { kind: 'react', prove: [reloads], restart: [] }],
  'a reader that needs a restart': [{ readers: [restarts] }, { kind: 'react', prove: [], restart: [restarts] }],
  'a reader of each kind': [
    { readers: [silent, restarts, reloads] },
    { kind: 'react', prove: [reloads], restart: [restarts] },
  ],
  'files that were there at the start need no restart': [{ since: 'found', readers: [restarts] }, { kind: 'none' }],
  'files that were there at the start, where somebody looks at the processes': [
    { since: 'found', readers: [restarts], canRestart: true },
    { kind: 'react', prove: [], restart: [restarts] },
  ],
  'files that were there at the start are proven': [
    { since: 'found', readers: [reloads, restarts] },
    { kind: 'react', prove: [reloads], restart: [] },
  ],
  'a reader whose use cannot be seen': [{ readers: [silent] }, { kind: 'none' }],
  'no reader': [{ readers: [] }, { kind: 'none' }],
  'no reader, whatever the files are': [{ readers: [], files: 'mismatched' }, { kind: 'none' }],
  'files that are gone': [{ files: 'absent' }, { kind: 'none' }],
  'half a pair': [{ files: 'partial' }, { kind: 'wait', problem: expect.stringMatching(/file is missing/) }],
  'a certificate and a key of two generations': [
    { files: 'mismatched' },
    { kind: 'wait', problem: expect.stringMatching(/do not belong together/) },
  ],
  'a file that cannot be read': [
    { files: 'unreadable' },
    { kind: 'wait', problem: expect.stringMatching(/cannot be read/) },
  ],
};

test.each(Object.entries(rows))('decideReaction(): %s', (_title, [given, want]) => {
  expect(
    decideReaction({ files: 'complete', since: 'changed', canRestart: false, readers: [reloads], ...given }),
  ).toEqual(want);
});
