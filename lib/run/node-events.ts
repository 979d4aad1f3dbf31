// Events on the Node of this host, as its kubelet: before a certificate expires, once a day, and after renewals. While the
// API server is away they wait, silently: they inform people and no repair needs them.
import { RunState } from '../host/state.ts';
import { EventRecorder, type RecordedEvent } from '../kube/events.ts';
import { announcedAs } from '../plan/reasons.ts';
import type { RegenReport } from '../regen/journal.ts';
import { listed } from '../summary.ts';
import { asKubelet, credentialOfKubelet } from './as-kubelet.ts';
import type { RegenRun } from './regen-run.ts';
import { reportRenewals } from './unreported-renewals.ts';

const pace = { againMs: 24 * 3_600_000, afterFailureMs: 60_000 };

/** Artefacts whose certificate ends within `warnBeforeMs` and is not renewed before, the first one first. Pure. */
export function endingSoon(artefacts: RegenReport['artefacts'], warnBeforeMs: number, now: Date): readonly string[] {
  return artefacts
    .filter((one) => announcedAs(one) !== 'renewed')
    .flatMap(({ artefact, notAfter }) => (notAfter === undefined ? [] : [{ artefact, notAfter }]))
    .filter(({ notAfter }) => notAfter.getTime() - now.getTime() < warnBeforeMs)
    .toSorted((a, b) => a.notAfter.getTime() - b.notAfter.getTime())
    .map(({ artefact, notAfter }) => `${artefact} (${notAfter.toISOString().slice(0, 16)}Z)`);
}

/** Never rejects. A run for which a kubelet waits only notes what it has renewed. */
export async function recordNodeEvents(run: RegenRun, isLast: boolean, signal: AbortSignal): Promise<void> {
  const { mode, report } = run;
  const runtime = { ...run.runtime, signal };
  const { clock, log, hostName: instance } = runtime;
  const kubeconfig = credentialOfKubelet(run);
  if (kubeconfig === undefined) return; // no node
  const state = new RunState(mode.lockDir);
  const send = (event: Omit<RecordedEvent, 'regarding'>): Promise<boolean> =>
    asKubelet(kubeconfig, runtime, async (connection, name) => {
      const events = new EventRecorder({ connection, clock, log, instance });
      // The kubelet's own Events name the Node so, and "kubectl describe node" looks for it.
      events.record({ ...event, regarding: { kind: 'Node', name, uid: name } });
      return (await events.flush(AbortSignal.any([signal, AbortSignal.timeout(5000)]))) === 0;
    }).catch(() => false);
  const renewed = (names: readonly string[]): Promise<boolean> =>
    send({ type: 'Normal', reason: 'CertificateUpdated', note: `renewed ${names.length}: ${listed(names)}` });
  await reportRenewals(report, { state, name: 'renewed-event' }, isLast ? renewed : undefined);
  const ending = endingSoon(report.artefacts, mode.warnBefore, clock.now());
  if (!isLast || ending.length === 0) return;
  const note = `expire soon, or have expired: ${listed(ending)}`;
  await state.whenDue('expiry-event', listed(ending), { ...pace, clock }, async () =>
    (await send({ type: 'Warning', reason: 'CertificateExpirationWarning', note })) ? 'done' : 'failed',
  );
}
