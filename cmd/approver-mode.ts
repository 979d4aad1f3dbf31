// Mode approver as this program runs it: approves the requests of kubelets whose client certificate has expired, with a
// connection of its own.
import { runApprover } from '../lib/approver/run.ts';
import { bootstrapRequester } from '../lib/bootstrap-identity.ts';
import type { ApproverConfig } from '../lib/config/config.ts';
import { createEventRecorder } from '../lib/kube/events.ts';
import { observeBoot } from '../lib/regen/stale-leases.ts';
import { clockFactsFor } from './clock-facts.ts';
import { connect, keepConnection } from './connections.ts';
import { instanceOf, type Shared } from './shared.ts';
import type { UnmetCondition } from './unmet.ts';

const recheckMs = 30_000;

export async function approver(mode: ApproverConfig, shared: Shared): Promise<readonly UnmetCondition[]> {
  const { config, clock, signal, hostName, health, metrics, builtAt } = shared;
  const { once, dryRun, identity } = config;
  const log = shared.log.with({ mode: 'approver' });
  const connection = await connect(mode.kubeconfig, shared);
  const events = createEventRecorder({ connection, clock, log, instance: instanceOf(shared) });
  const boot = observeBoot(clock);
  const run = runApprover({
    connection,
    // A kubelet registers its host name in lower case (pkg/util/node/node.go, GetHostname).
    nodeName: identity.nodeName ?? hostName.toLowerCase(),
    nodeCertificate: mode.nodeCertificate,
    longestLifeMs: mode.longestLifeMs,
    expectedNodes: mode.expectedNodes,
    namespace: mode.bootstrapNamespace,
    requester: bootstrapRequester(mode.bootstrapNamespace),
    clockFacts: clockFactsFor(mode, builtAt),
    bootedAt: () => (boot().clockStepped ? undefined : boot().bootedAt),
    once,
    dryRun,
    recheckMs,
    clock,
    log,
    health,
    metrics,
    events,
    signal,
  });
  try {
    if (once) {
      const { failed } = await run;
      await events.flush(AbortSignal.timeout(2000));
      return failed.map((message) => ({ message }));
    }
    await Promise.all([run, keepConnection(connection, shared), events.run(signal)]);
    return [];
  } finally {
    await connection.close();
  }
}
