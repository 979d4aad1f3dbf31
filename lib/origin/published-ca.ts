// Fetches the CA that the cluster publishes, for a machine whose own CA expires: from the cluster-info of kubeadm
// (kube/cluster-info.ts), over a connection that verifies the key of the CA (kube/public-object.ts). It needs no token.
// The plan decides what is trusted (plan/judge-authority.ts); it is asked here only how long to wait.
import { type Clock, steadyMs } from '../clock.ts';
import { durationText } from '../duration.ts';
import { isCode, RecoveryError } from '../errors.ts';
import { unanswered } from '../kube/api-error.ts';
import { type ClusterInfo, clusterInfoPath, clusterInfoText, publishedAuthority } from '../kube/cluster-info.ts';
import { readServer } from '../kubeconfig/credentials.ts';
import { type Log, Repeats } from '../log.ts';
import type { Certificate } from '../pki/certificate.ts';
import { judgeOffer } from '../plan/judge-authority.ts';
import type { AuthorityBytes } from '../plan/gather-offers.ts';
import { version } from '../program.ts';

const tryMs = 5000;
const againMs = 1000;

export interface CaAsking {
  /** It names the API server. */
  readonly kubeconfig: string;
  /** The CAs by which the API server is verified. */
  readonly anchors: readonly Certificate[];
  /** The CAs of all files of this machine. */
  readonly held: readonly Certificate[];
  /** The control plane may still be starting; undefined: asked once, as the CA has not expired. */
  readonly waitMs: number | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

type Answer = AuthorityBytes | { readonly problem: string };

/** Never rejects but by a fault of this program. */
export async function publishedCa(asking: CaAsking): Promise<Answer> {
  const { waitMs = 0, clock, log, signal } = asking;
  const isOnce = asking.waitMs === undefined;
  const until = steadyMs(clock) + waitMs;
  const met = new Repeats(clock);
  for (;;) {
    const { answer, mayCome, code } = await ask(asking);
    if (!('problem' in answer)) return answer;
    const { problem } = answer;
    if (!mayCome) {
      log.warn('authority.refused', { code, err: problem });
      return answer;
    }
    if (isOnce || met.met('offer') !== undefined) log.info('api.waiting', { err: problem });
    if (isOnce || signal.aborted || steadyMs(clock) >= until)
      return { problem: isOnce ? problem : `${problem}; waited ${durationText(waitMs)}` };
    await clock.sleep(againMs, signal);
  }
}

interface Asked {
  readonly answer: Answer;
  /** A later answer may be another one. */
  readonly mayCome: boolean;
  readonly code?: RecoveryError['code'] | undefined;
}

async function ask({ kubeconfig, anchors, held, waitMs, clock, signal }: CaAsking): Promise<Asked> {
  try {
    const { server, serverName } = await readServer(kubeconfig);
    const { readPublicObject } = await import('../kube/public-object.ts');
    const userAgent = `kube-cert-recovery/${version}`;
    const how = { server, serverName, anchors, userAgent, timeoutMs: tryMs, clock, signal };
    const object = await readPublicObject<ClusterInfo>({ ...how, path: clusterInfoPath });
    const offered = publishedAuthority(object);
    const judgement =
      'problem' in offered
        ? ({ state: 'refused', reason: offered.problem } as const)
        : judgeOffer(offered, held, clock.now());
    if (judgement.state === 'refused') {
      const state = `what ${clusterInfoText} of ${server} offers is refused, ${judgement.reason}`;
      return {
        answer: { problem: `${state}; see who has written that, or bring the CA here by hand` },
        mayCome: false,
        code: 'MaterialInvalid',
      };
    }
    if (judgement.state === 'none' && waitMs !== undefined) {
      const state = `${clusterInfoText} of ${server} still has the CA that is here`;
      return { answer: { problem: `${state}: see why no control-plane node has renewed it` }, mayCome: true };
    }
    return { answer: { authorities: offered as Uint8Array }, mayCome: false };
  } catch (err) {
    if (!(err instanceof RecoveryError)) throw err;
    const { code, message } = err;
    const mayCome = isCode(err, 'KubeNotFound', ...unanswered);
    return { answer: { problem: mayCome ? `nothing was offered, ${message}` : message }, mayCome, code };
  }
}
