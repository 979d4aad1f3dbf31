// What is told of requests that are left, alone and in a flood.
import { beforeEach, describe, expect, it } from 'vitest';
import { Reporter, type Reported } from '../../lib/approver/reporter.ts';
import type { RecordedEvent } from '../../lib/kube/events.ts';
import { createLog } from '../../lib/log.ts';
import { FakeClock } from '../support/fake-clock.ts';

const told = (name: string): Reported => ({
  summary: {
    name,
    signer: 'kubernetes.io/kube-apiserver-client-kubelet',
    uid: `uid-${name}`,
    requestedAt: new Date(0),
    size: 1,
  },
  reported: new Set(),
});
const left = { action: 'leave', node: 'tiger', reason: 'NodeUnknown', message: 'there is no Node' } as const;

interface Line {
  readonly level: string;
  readonly event: string;
  readonly csr?: string;
  readonly message: string;
}

let lines: Line[];
let events: RecordedEvent[];
let clock: FakeClock;
let reporter: Reporter;
beforeEach(() => {
  lines = [];
  events = [];
  clock = new FakeClock();
  reporter = new Reporter({
    log: createLog({ level: 'debug', write: (line) => lines.push(JSON.parse(line) as Line) }),
    clock,
    events: { record: (event) => events.push(event) },
    dryRun: false,
  });
});

describe('Reporter', () => {
  it('tells why a request is left once, in the log and as an Event', () => {
    const one = told('a');
    reporter.left(one, left);
    reporter.left(one, left);
    expect(lines).toMatchObject([{ level: 'warn', event: 'csr.pending', csr: 'a' }]);
    expect(events).toMatchObject([{ type: 'Warning', note: 'NodeUnknown: there is no Node' }]);
    reporter.left(one, { ...left, reason: 'NodeAlive' });
    expect(events).toHaveLength(2);
  });

  it('makes one line and one Event of a flood and of each reason in it, the rest counted, and one line of its end', () => {
    for (let turn = 0; turn < 10; turn += 1) {
      reporter.flooded(1000, told('newest').summary);
      for (let count = 0; count < 100; count += 1) reporter.left(told(`${turn}-${count}`), left);
      clock.advance(5000);
    }
    expect(lines.filter(({ level }) => level !== 'debug')).toMatchObject([
      { level: 'warn', event: 'csr.flooded' },
      { level: 'warn', event: 'csr.pending', csr: '0-0' },
    ]);
    expect(events).toMatchObject([{ regarding: { name: 'newest' } }, { regarding: { name: '0-0' } }]);
    expect(events[0]?.note).toContain('1000 requests wait');
    // Who gets one is told all the same.
    reporter.approved(told('mine'), 'panda', 'ended');
    expect(events).toHaveLength(3);
    clock.advance(10 * 60_000);
    reporter.flooded(1000, told('later').summary);
    expect(events[3]?.note).toContain('left so far: NodeUnknown 1000');
    lines.length = 0;
    reporter.flooded(undefined, undefined);
    expect(lines).toMatchObject([{ level: 'info', event: 'csr.flooded' }]);
    expect(lines[0]?.message).toContain('left meanwhile: NodeUnknown 1000');
    reporter.flooded(undefined, undefined);
    reporter.left(told('after'), left);
    expect(lines).toMatchObject([{}, { level: 'warn', event: 'csr.pending', csr: 'after' }]);
    expect(events).toHaveLength(5);
  });
});
