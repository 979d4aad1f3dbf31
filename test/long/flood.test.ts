// 2000 junk requests a minute for five minutes, from the identity that kubelets ask with, against a real API server: how long
// the kubelets wait that ask meanwhile, how much memory the approver takes, and how many Events it writes.
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { kubeletRequest } from '../support/certificates/requests.ts';
import { ApproverWorld, csrCollection, peakMiB } from '../support/cluster/approver-world.ts';

const perMinute = 2000;
const minutes = 5;
const askEveryMs = 20_000;
const workers = 14;

interface Asked {
  readonly name: string;
  readonly at: number;
}

it('approves what kubelets ask for within 10 s, with bounded memory and Events', async () => {
  await using world = await ApproverWorld.create('longestLife: 10s');
  const { bootstrapper } = world.tokens;
  for (let worker = 0; worker < workers; worker += 1) {
    const body = { metadata: { name: `worker-${worker}` } };
    expect(await world.controlPlane.admin('/api/v1/nodes', { method: 'POST', body })).toMatchObject({ status: 201 });
  }
  // Well-formed, in the names of nodes that are not there, of one that is, and what breaks a rule.
  const junk = await Promise.all([
    ...Array.from({ length: 30 }, (_, at) => kubeletRequest(`nowhere-${at}`)),
    kubeletRequest('worker-0'),
    kubeletRequest('tiger', { extensions: ['subjectAltName = DNS:tiger'] }),
  ]);
  const real = await Promise.all(Array.from({ length: workers }, (_, at) => kubeletRequest(`worker-${at}`)));
  const own = await kubeletRequest('panda');
  const tool = world.start();
  await world.ask('before', 'panda');
  await world.issued('before');
  const began = performance.now();
  let sent = 0;
  const flood = async (): Promise<void> => {
    while (performance.now() - began < minutes * 60_000) {
      const dueAt = (sent * 60_000) / perMinute;
      const at = sent;
      sent += 1;
      const early = dueAt - (performance.now() - began);
      if (early > 0) await delay(early);
      await world.send({ name: `junk-${at}`, token: bootstrapper, pem: junk[at % junk.length] ?? '' });
    }
  };
  const asked: Asked[] = [];
  const kubelets = async (): Promise<void> => {
    for (let turn = 1; turn < workers; turn += 1) {
      await delay(askEveryMs);
      for (const [name, pem] of [
        [`own-${turn}`, own],
        [`other-${turn}`, real[turn] ?? ''],
      ] as const) {
        await world.send({ name, token: bootstrapper, pem });
        asked.push({ name, at: performance.now() });
      }
    }
  };
  await Promise.all([...Array.from({ length: 4 }, flood), kubelets()]);
  await delay(10_000);
  const waits = asked.map(({ name, at }) => {
    const line = tool.lines.find(({ event, fields }) => event === 'csr.approved' && fields['csr'] === name);
    return { name, waitedMs: line === undefined ? Infinity : Math.round(line.at - at) };
  });
  const events = await world.eventsOf('');
  const peak = await peakMiB(tool.pid);
  const { body } = await world.controlPlane.admin(`${csrCollection}?limit=1`);
  const sorted = waits.map(({ waitedMs }) => waitedMs).toSorted((a, b) => a - b);
  console.log({
    sent,
    perMinute: Math.round((sent * 60_000) / (performance.now() - began - 10_000)),
    left: (body as { metadata: { remainingItemCount?: number } }).metadata.remainingItemCount,
    kubelets: waits.length,
    medianMs: sorted[Math.floor(sorted.length / 2)],
    slowestMs: sorted.at(-1),
    peakMiB: Math.round(peak),
    events: events.length,
  });
  expect(waits.filter(({ waitedMs }) => waitedMs > 10_000)).toEqual([]);
  expect(peak).toBeLessThan(250);
  expect(events.filter(({ name }) => name.startsWith('junk')).length).toBeLessThan(150);
  expect(await tool.stop()).toBe(0);
  // From nothing, with all of them waiting: how long until the first decision, and how much memory.
  const again = world.start();
  const restarted = performance.now();
  await world.ask('own-again', 'panda');
  await world.issued('own-again');
  console.log({
    againMs: Math.round(performance.now() - restarted),
    againPeakMiB: Math.round(await peakMiB(again.pid)),
  });
}, 900_000);
