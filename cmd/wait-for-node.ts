// `init host --wait`: until all that this machine has is valid and served, and its node Ready.
import { systemClock } from '../lib/clock.ts';
import { createLog } from '../lib/log.ts';
import { credentialOfKubelet, isReadySince } from '../lib/run/as-kubelet.ts';
import { waitedLines } from '../lib/status/installed-text.ts';
import type { NodeStatus } from '../lib/status/node-report.ts';
import { verdictOf } from '../lib/status/verdict.ts';
import { isWell } from '../lib/status/well.ts';
import type { Io } from './io.ts';
import { waitUntilWell } from './status-again.ts';
import type { lookAtNode } from './status.ts';

interface Wait {
  readonly began: Date;
  readonly waitMs: number | undefined;
  readonly before: NodeStatus;
}

/** Until everything serves and a kubelet of now has said that the node is Ready. */
export async function waitForNode(
  lookHere: () => ReturnType<typeof lookAtNode>,
  { began, waitMs = 0, before }: Wait,
  io: Io,
) {
  const running = { clock: systemClock, log: createLog({ level: 'error', write: () => undefined }), signal: io.signal };
  const look = async () => {
    const { status, resolved } = await lookHere();
    const kubeconfig = credentialOfKubelet({ resolved });
    const isServed = isWell(status);
    const isReady = kubeconfig === undefined || (isServed && (await isReadySince(began, kubeconfig, running)));
    const waiting = 'All is served, and the kubelet has yet to report the node as Ready.';
    const headline = isServed ? waiting : (verdictOf(status).lines[0] ?? '');
    return { status, hasNode: kubeconfig !== undefined, isWell: isServed && isReady, headline };
  };
  const last = await waitUntilWell(look, { waitMs }, io);
  const tookMs = systemClock.now().getTime() - began.getTime();
  return { ...last, lines: waitedLines(before, last.status, { hasNode: last.hasNode, isReady: last.isWell, tookMs }) };
}
