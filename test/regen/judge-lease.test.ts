import { expect, test } from 'vitest';
import type { Lease } from '../../lib/kube/leases.ts';
import { judgeLease, type LeaseReason } from '../../lib/regen/judge-lease.ts';

const bootedAt = new Date('2026-11-21T08:00:00Z');
const now = new Date('2026-11-21T08:00:30Z');
const beforeBoot = '2026-08-01T10:00:00.000000Z';
const uuid = 'b2c1f2c4-5a34-4f0e-8a51-6f3c0c9d1e77';

const lease = (
  holderIdentity: string | null | undefined,
  renewTime: string | null | undefined = beforeBoot,
): Lease => ({
  spec: {
    ...(holderIdentity === undefined ? {} : { holderIdentity: holderIdentity as string }),
    ...(renewTime === undefined ? {} : { renewTime }),
  },
});
const kept = (reason: LeaseReason) => reason;
const released = undefined;

interface Row {
  readonly given: Partial<Parameters<typeof judgeLease>[0]>;
  readonly want: LeaseReason | undefined;
}

const rows: Record<string, Row> = {
  'holder on this node, renewed before the boot': { given: { lease: lease(`node1_${uuid}`) }, want: released },
  'host name with dots': {
    given: { lease: lease(`node1.example.com_${uuid}`), hostName: 'node1.example.com' },
    want: released,
  },
  'host name with an underscore': {
    given: { lease: lease(`node1_x_${uuid}`), hostName: 'node1_x' },
    want: released,
  },
  'holder on another node': { given: { lease: lease(`node2_${uuid}`) }, want: kept('OtherHolder') },
  'holder whose host name begins with ours': { given: { lease: lease(`node10_${uuid}`) }, want: kept('OtherHolder') },
  'holder whose host name begins with ours and an underscore': {
    given: { lease: lease(`node1_x_${uuid}`) },
    want: kept('OtherHolder'),
  },
  'holder with our host name in other letters': { given: { lease: lease(`Node1_${uuid}`) }, want: kept('OtherHolder') },
  'holder whose fully qualified name begins with ours': {
    given: { lease: lease(`node1.example.com_${uuid}`) },
    want: kept('OtherHolder'),
  },
  'identity without a process part': { given: { lease: lease('node1') }, want: kept('OtherHolder') },
  'identity with an empty process part': { given: { lease: lease('node1_') }, want: kept('OtherHolder') },
  'empty host name': { given: { lease: lease(`_${uuid}`), hostName: '' }, want: kept('OtherHolder') },
  'empty holder': { given: { lease: lease('') }, want: kept('NoHolder') },
  'no holder': { given: { lease: lease(undefined) }, want: kept('NoHolder') },
  'null holder': { given: { lease: lease(null) }, want: kept('NoHolder') },
  'no spec': { given: { lease: {} }, want: kept('NoHolder') },
  'never renewed': { given: { lease: { spec: { holderIdentity: `node1_${uuid}` } } }, want: kept('NeverRenewed') },
  'null renewal': { given: { lease: lease(`node1_${uuid}`, null) }, want: kept('NeverRenewed') },
  'renewal that is no time': { given: { lease: lease(`node1_${uuid}`, 'yesterday') }, want: kept('NeverRenewed') },
  'renewed after the boot': {
    given: { lease: lease(`node1_${uuid}`, '2026-11-21T08:00:10.000000Z') },
    want: kept('RenewedSinceBoot'),
  },
  'renewed one second before the boot, within the tolerance': {
    given: { lease: lease(`node1_${uuid}`, '2026-11-21T07:59:59.000000Z') },
    want: kept('RenewedSinceBoot'),
  },
  'renewed three seconds before the boot': {
    given: { lease: lease(`node1_${uuid}`, '2026-11-21T07:59:57.000000Z') },
    want: released,
  },
  'renewed in the future': {
    given: { lease: lease(`node1_${uuid}`, '2036-01-01T00:00:00.000000Z') },
    want: kept('RenewedInFuture'),
  },
  'clock stepped since the boot': {
    given: { lease: lease(`node1_${uuid}`), clockStepped: true },
    want: kept('ClockStepped'),
  },
  'boot time unknown': {
    given: { lease: lease(`node1_${uuid}`), bootedAt: undefined },
    want: kept('BootUnknown'),
  },
};

test.each(Object.entries(rows))('judgeLease(): %s', (_title, { given, want }) => {
  expect(judgeLease({ lease: {}, hostName: 'node1', bootedAt, clockStepped: false, now, ...given })).toEqual(want);
});
