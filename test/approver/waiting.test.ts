// Which nodes are known to exist: who asks can name any number of others.
import { expect, it } from 'vitest';
import { WaitingRequests } from '../../lib/approver/waiting.ts';

const refused = { action: 'leave', reason: 'KeyDiffers', message: '' } as const;

it('a name is known by its Node, whatever the reason of the verdict is', () => {
  const waiting = new WaitingRequests('own');
  waiting.learn({ ...refused, node: 'invented', isKnown: false });
  waiting.learn({ ...refused, node: 'invented-too' });
  waiting.learn({ ...refused, node: 'node-1', isKnown: true });
  expect([...waiting.nodes.known]).toEqual(['node-1']);
  waiting.learn({ ...refused, node: 'node-1', isKnown: false });
  expect([...waiting.nodes.known]).toEqual([]);
});
