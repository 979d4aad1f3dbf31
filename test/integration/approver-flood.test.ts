// Hundreds of requests that nobody needs, and those that kubelets wait for: against a real API server, whatever it takes.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { kubeletRequest } from '../support/certificates/requests.ts';
import { ApproverWorld } from '../support/cluster/approver-world.ts';

let world: ApproverWorld;
beforeAll(async () => {
  world = await ApproverWorld.create();
});
afterAll(() => world?.[Symbol.asyncDispose]());

const senders = 6;
const each = 100;

/** One after the other from each sender, in the names of some nodes. */
async function junk(what: string): Promise<void> {
  const pems = await Promise.all(Array.from({ length: senders }, (_, sender) => kubeletRequest(`nowhere-${sender}`)));
  await Promise.all(
    pems.map(async (pem, sender) => {
      for (let count = 0; count < each; count += 1) {
        await world.send({ name: `${what}-${sender}-${count}`, token: world.tokens.bootstrapper, pem });
      }
    }),
  );
}

it('approves its own node and an expected one among 600 requests, and tells of them as of one', async () => {
  await world.ask('own-before', 'panda');
  await junk('waiting');
  const tool = world.start();
  await world.issued('own-before');
  const coming = junk('coming');
  await world.ask('own-meanwhile', 'panda');
  await world.ask('newcomer-meanwhile', 'newcomer');
  await world.issued('own-meanwhile');
  await world.issued('newcomer-meanwhile');
  await coming;
  await world.ask('own-after', 'panda');
  await world.issued('own-after');
  expect(tool.lines.filter(({ event }) => event === 'csr.flooded')).toHaveLength(1);
  expect(await tool.stop()).toBe(0);
  for (const what of ['waiting', 'coming']) {
    const events = await world.eventsOf(what);
    // One of the flood, and the first of each reason in it: no flood hides what else is refused.
    const others = events.filter(({ note }) => !note.includes('requests wait'));
    expect(new Set(others.map(({ note }) => note.split(':')[0])).size).toBe(others.length);
    expect(events.length).toBeLessThanOrEqual(others.length + 1);
    expect(others.length).toBeLessThanOrEqual(2);
    expect((await world.csr(`${what}-0-0`)).status).toEqual({});
  }
});
