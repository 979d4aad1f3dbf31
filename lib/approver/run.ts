// The loop of the approver: a list and a watch of the requests for each signer, and a judgement of each waiting
// request, immediately when it arrives and again from time to time, because a certificate expires or is replaced
// without a change of the request. Any number of approvers may run: the resourceVersion makes one approval.
import type { CheckState } from '../health.ts';
import { list, type Pages } from '../kube/list.ts';
import { listWatch, WatchHealth } from '../kube/list-watch.ts';
import { Wake } from '../retry.ts';
import { RequestQueue, type PassReport } from './queue.ts';
import type { ApproverOptions } from './settings.ts';
import type { SignerPolicy } from './signer-policy.ts';
import type { RequestSummary } from './batch.ts';
import { ClientPolicy } from './client-policy.ts';
import { ServingPolicy } from './serving-policy.ts';
import { requestsPath, type SigningRequest } from './request.ts';

/**
 * Ten requests of kubelets are 30 kB, a thousand nodes a hundred responses; of the largest possible requests, a page
 * has one.
 */
const pageSize = 10;

/** Runs until `signal` aborts; with `once` it throws the errors of listing the requests. */
export async function runApprover(options: ApproverOptions): Promise<PassReport> {
  const { connection, signal } = options;
  const policies = policiesOf(options);
  const queue = new RequestQueue(options, policies);
  if (!options.once) return follow(queue, policies, options);
  for (const { signer } of policies) {
    const { objects } = await list({ connection, path: requestsPath(signer), pages: pagesOf(queue), signal });
    queue.replace(signer, objects);
  }
  const report = await passAll(queue, options);
  for (const policy of policies) await policy.remember?.('once');
  return report;
}

function policiesOf(options: ApproverOptions): readonly SignerPolicy[] {
  const { signers = ['kubelet-client'] } = options;
  return [...new Set(signers)].map((signer) =>
    signer === 'kubelet-client' ? new ClientPolicy(options) : new ServingPolicy(options),
  );
}

/**
 * Judges every request once, in as many batches as needed, and those whose nodes are being watched until they are
 * decided.
 */
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
  keep: (request) => queue.listed(request),
});

async function follow(
  queue: RequestQueue,
  policies: readonly SignerPolicy[],
  options: ApproverOptions,
): Promise<PassReport> {
  const { clock, signal, health, recheckMs } = options;
  const wake = new Wake();
  const watches = new WatchHealth(clock.now());
  /** Messages by signer. */
  const notListed = new Map(policies.map(({ signer }) => [signer, `${textOf(signer)} have not been listed yet`]));
  let report: PassReport = { approved: 0, left: 0, delayed: 0, watched: 0, failed: [], isFailing: false };
  health?.set('approver', () => {
    const watching = watches.check(clock.now());
    if (!watching.ok) return watching;
    const [message] = notListed.values();
    return message === undefined ? check(report) : { ok: false, message };
  });
  const watching = policies.map((policy) => {
    const { signer } = policy;
    let progress: Date | undefined;
    return listWatch<SigningRequest, RequestSummary>({
      ...options,
      path: requestsPath(signer),
      pages: pagesOf(queue),
      events: 'versions',
      onList(summaries) {
        queue.replace(signer, summaries);
        policy.followed?.();
        notListed.delete(signer);
        wake.call();
      },
      onEvent(type, object) {
        queue.heard(signer, type, object);
        wake.call();
      },
      onStatus(status) {
        watches.set(textOf(signer), status);
        if (status.lastProgress !== progress && !queue.isBehind(signer)) policy.followed?.();
        progress = status.lastProgress;
        if (!notListed.has(signer) || status.phase !== 'waiting') return;
        notListed.set(signer, `${textOf(signer)} have not been listed yet: ${status.message}`);
      },
    });
  });
  const remembering = policies.map((policy) => policy.remember?.('follow'));
  const listAll = async (): Promise<readonly RequestSummary[]> => {
    const lists = policies.map(({ signer }) =>
      list({ connection: options.connection, path: requestsPath(signer), pages: pagesOf(queue), signal }),
    );
    return (await Promise.all(lists)).flatMap(({ objects }) => objects);
  };
  const following = policies.map(async (policy) => {
    const changed = (): void => {
      queue.lookAgain(policy.signer);
      wake.call();
    };
    await policy.follow?.({ changed, onStatus: (what, status) => watches.set(what, status) });
  });
  while (!signal.aborted) {
    await wake.wait({ clock, signal }, Math.min(queue.dueInMs() ?? recheckMs, recheckMs));
    if (!signal.aborted) report = await queue.pass();
    if (!signal.aborted) await queue.recall(listAll);
  }
  await Promise.all([...watching, ...remembering, ...following]);
  return report;
}

const textOf = (signer: string): string => `the requests for ${signer}`;

/** One request that cannot be judged makes no approver unready: requesters would decide about that. */
function check({ failed, isFailing, left, delayed }: PassReport): CheckState {
  if (isFailing && failed.length > 0) return { ok: false, message: failed.slice(0, 3).join(', ') };
  const rest = delayed > 0 ? `, ${delayed} of them wait for a later round` : '';
  return { ok: true, message: `${left} requests are left as they are${rest}` };
}
