// The loop of the approver: a list and a watch of the requests for the signer of kubelets' client certificates, and a look
// at each that waits, at once when it comes and again from time to time, because its certificate ends or is replaced
// without a change of the request. Any number of approvers may run: the resourceVersion makes one approval.
import type { CheckState } from '../health.ts';
import { list, type Pages } from '../kube/list.ts';
import { listWatch, WatchHealth } from '../kube/list-watch.ts';
import { Wake } from '../retry.ts';
import { RequestQueue, type PassReport } from './queue.ts';
import type { ApproverOptions } from './settings.ts';
import type { RequestSummary } from './batch.ts';
import { requestsPath, type SigningRequest } from './request.ts';

/** Ten of a kubelet's are 30 kB, a thousand nodes a hundred answers; of the largest that there can be, a page has one. */
const pageSize = 10;

/** Runs until `signal` aborts; with `once` it throws what a list of the requests meets. */
export async function runApprover(options: ApproverOptions): Promise<PassReport> {
  const { connection, signal } = options;
  const queue = new RequestQueue(options);
  if (!options.once) return follow(queue, options);
  const { objects } = await list({ connection, path: requestsPath(), pages: pagesOf(queue), signal });
  queue.replace(objects);
  return passAll(queue, options);
}

/** Every request once, in as many batches as they take, and those whose nodes are being watched until they are decided. */
async function passAll(queue: RequestQueue, { clock, signal }: ApproverOptions): Promise<PassReport> {
  let report = await queue.pass();
  while (report.delayed + report.watched > 0 && !signal.aborted) {
    await clock.sleep(queue.dueInMs() ?? 0, signal);
    const next = await queue.pass();
    report = { ...next, approved: report.approved + next.approved };
  }
  return report;
}

const pagesOf = (queue: RequestQueue): Pages<SigningRequest, RequestSummary> => ({
  size: pageSize,
  keep: (request) => queue.summary(request),
});

async function follow(queue: RequestQueue, options: ApproverOptions): Promise<PassReport> {
  const { clock, signal, health, recheckMs } = options;
  const wake = new Wake();
  const watches = new WatchHealth(clock.now());
  let notListed: string | undefined = 'the requests have not been listed yet';
  let report: PassReport = { approved: 0, left: 0, delayed: 0, watched: 0, failed: [] };
  health?.set('approver', () => {
    const watching = watches.check(clock.now());
    if (!watching.ok) return watching;
    return notListed === undefined ? check(report) : { ok: false, message: notListed };
  });
  const watch = listWatch<SigningRequest, RequestSummary>({
    ...options,
    path: requestsPath(),
    pages: pagesOf(queue),
    onList(summaries) {
      queue.replace(summaries);
      notListed = undefined;
      wake.call();
    },
    onEvent(type, request) {
      if (type === 'DELETED') queue.remove(request);
      else queue.put(request);
      wake.call();
    },
    onStatus(status) {
      watches.set('the requests', status);
      const isWaiting = notListed !== undefined && status.phase === 'waiting';
      if (isWaiting) notListed = `the requests have not been listed yet: ${status.message}`;
    },
  });
  while (!signal.aborted) {
    await wake.wait({ clock, signal }, Math.min(queue.dueInMs() ?? recheckMs, recheckMs));
    if (!signal.aborted) report = await queue.pass();
  }
  await watch;
  return report;
}

function check({ failed, left, delayed }: PassReport): CheckState {
  if (failed.length > 0) return { ok: false, message: failed.slice(0, 3).join(', ') };
  const rest = delayed > 0 ? `, ${delayed} of them wait for their turn` : '';
  return { ok: true, message: `${left} requests are left as they are${rest}` };
}
