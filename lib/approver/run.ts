// The loop of the approver: a list and a watch of the requests for the signer of kubelets' client certificates, and a look
// at each that waits, at once when it comes and again from time to time, because its certificate ends or is replaced
// without a change of the request. Any number of approvers may run: the resourceVersion makes one approval.
import type { CheckState } from '../health.ts';
import { list, type Pages } from '../kube/list.ts';
import { listWatch, type WatchStatus } from '../kube/list-watch.ts';
import { Desk, type PassReport } from './desk.ts';
import type { ApproverOptions } from './options.ts';
import type { Outline } from './outline.ts';
import { requestsPath, type SigningRequest } from './request.ts';

export type { ApproverOptions };

/** Ten of a kubelet's are 30 kB, a thousand nodes a hundred answers; of the largest that there can be, a page has one. */
const pageSize = 10;
const longestSilenceMs = 120_000;

/** Runs until `signal` aborts; with `once` it throws what a list of the requests meets. */
export async function runApprover(options: ApproverOptions): Promise<PassReport> {
  const { connection, signal } = options;
  const desk = new Desk(options);
  if (!options.once) return follow(desk, options);
  const { objects } = await list({ connection, path: requestsPath(), pages: pagesOf(desk), signal });
  desk.replace(objects);
  return passAll(desk, options);
}

/** Every request once, in as many turns as they take, and those whose nodes are being watched until they are decided. */
async function passAll(desk: Desk, { clock, signal }: ApproverOptions): Promise<PassReport> {
  let report = await desk.pass();
  while (report.delayed + report.watched > 0 && !signal.aborted) {
    await clock.sleep(desk.dueInMs() ?? 0, signal);
    const next = await desk.pass();
    report = { ...next, approved: report.approved + next.approved };
  }
  return report;
}

const pagesOf = (desk: Desk): Pages<SigningRequest, Outline> => ({
  size: pageSize,
  keep: (request) => desk.outline(request),
});

async function follow(desk: Desk, options: ApproverOptions): Promise<PassReport> {
  const { clock, signal, health, recheckMs } = options;
  const bell = new Bell();
  const began = clock.now();
  let status: WatchStatus | undefined;
  let report: PassReport = { approved: 0, left: 0, delayed: 0, watched: 0, failed: [] };
  health?.set('approver', () => check({ status, report, silentMs: silence(status?.lastProgress ?? began, options) }));
  const watch = listWatch<SigningRequest, Outline>({
    ...options,
    path: requestsPath(),
    pages: pagesOf(desk),
    onList(outlines) {
      desk.replace(outlines);
      bell.ring();
    },
    onEvent(type, request) {
      if (type === 'DELETED') desk.remove(request);
      else desk.put(request);
      bell.ring();
    },
    onStatus: (next) => void (status = next),
  });
  while (!signal.aborted) {
    const waiting = new AbortController();
    const delay = Math.min(desk.dueInMs() ?? recheckMs, recheckMs);
    await bell.rung(clock.sleep(delay, AbortSignal.any([signal, waiting.signal])));
    waiting.abort();
    if (!signal.aborted) report = await desk.pass();
  }
  await watch;
  return report;
}

const silence = (since: Date, { clock }: ApproverOptions): number => clock.now().getTime() - since.getTime();

interface Checked {
  readonly status: WatchStatus | undefined;
  readonly report: PassReport;
  readonly silentMs: number;
}

/** A watch of a quiet collection hears a bookmark about every minute, so silence means that it fails, or hangs. */
function check({ status, report, silentMs }: Checked): CheckState {
  const { failed, left, delayed } = report;
  if (status?.lastProgress === undefined || silentMs > longestSilenceMs) {
    const why = status?.phase === 'waiting' ? `: ${status.message}` : '';
    return { ok: false, message: `the requests have not been listed, or nothing was heard for two minutes${why}` };
  }
  if (failed.length > 0) return { ok: false, message: failed.slice(0, 3).join(', ') };
  const queue = delayed > 0 ? `, ${delayed} of them wait for their turn` : '';
  return { ok: true, message: `${left} requests are left as they are${queue}` };
}

/** Wakes its one listener; rung while nobody listens, it wakes the next one at once. */
class Bell {
  #isRung = false;
  #wake: () => void = () => undefined;

  ring(): void {
    this.#isRung = true;
    this.#wake();
  }

  async rung(elapsed: Promise<void>): Promise<void> {
    if (!this.#isRung) await Promise.race([new Promise<void>((resolve) => (this.#wake = resolve)), elapsed]);
    this.#isRung = false;
  }
}
