// kube-apiserver is restarted before its self-made loopback certificate expires: by a marker, as after a write, and on
// one machine of the cluster after the other by the renewal Lease. No machine waits for that Lease for ever: machines
// that cannot take it restart at different times, as they have started at different times.
import { askLoopback, judgeLoopback } from '../proof/loopback.ts';
import type { HostProofs } from '../proof/prove.ts';
import type { Component } from './decide.ts';
import { mark } from './former-files.ts';
import { type Markers, runningOf } from './markers.ts';
import type { RenewalLease } from './renewal-lease.ts';

interface LoopbackOptions extends Pick<HostProofs, 'apiServer' | 'clock' | 'signal'> {
  readonly components: readonly Component[];
  readonly markers: Markers;
  /** Undefined where this host has no identity to take it with. */
  readonly lease: Pick<RenewalLease, 'take'> | undefined;
}

/** Leaves the marker where the restart is due. Never rejects. */
export async function markLoopback({ components, markers, lease, apiServer, clock, signal }: LoopbackOptions) {
  const component = components.find(({ name }) => name === 'kube-apiserver');
  if (component === undefined || apiServer === undefined) return;
  const certificate = await askLoopback({ ...apiServer, clock, signal });
  if (certificate === undefined) return;
  const { restartsAt, restartsAnywayAt } = judgeLoopback(certificate, clock.now());
  if (clock.now() < restartsAt || (await markers.look(component.name)) !== undefined) return;
  const isTaken = lease !== undefined && (await lease.take()) === undefined;
  if (!isTaken && clock.now() < restartsAnywayAt) return;
  const running = runningOf(component).map((process) => ({ process, until: certificate.notAfter }));
  if (running.length > 0) await mark(component, running, markers);
}
