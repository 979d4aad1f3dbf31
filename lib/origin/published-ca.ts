// Fetches the CA that the cluster publishes, for a machine whose own CA expires: from the cluster-info of kubeadm
// (kube/cluster-info.ts), over a connection that verifies the key of the CA (kube/public-object.ts). It needs no token.
// The plan decides what is trusted (plan/judge-authority.ts); it is asked here only how long to wait.
import { durationText } from '../duration.ts';
import { isCode, RecoveryError } from '../errors.ts';
import { unanswered } from '../kube/api-error.ts';
import { type ClusterInfo, clusterInfoPath, clusterInfoText, publishedAuthority } from '../kube/cluster-info.ts';
import { readServer } from '../kubeconfig/credentials.ts';
import { Repeats } from '../log.ts';
import type { Certificate } from '../pki/certificate.ts';
import { heldBy } from '../plan/follow-rules.ts';
import { gather } from '../plan/gather.ts';
import { judgeOffer } from '../plan/judge-authority.ts';
import type { AuthorityBytes } from '../plan/gather-offers.ts';
import { pollUntil } from '../retry.ts';
import { kubeletKubeconfig } from './issued.ts';
import type { Obtaining, ObtainedAnswer } from './obtaining.ts';

const tryMs = 5000;
const againMs = 1000;

interface CaRequest extends Pick<Obtaining, 'clock' | 'signal'> {
  /** It names the API server. */
  readonly kubeconfig: string;
  /** The CAs by which the API server is verified. */
  readonly anchors: readonly Certificate[];
  /** The CAs of all files of this machine. */
  readonly held: readonly Certificate[];
  /** The CA has expired. The control plane may still be starting. */
  readonly isUrgent: boolean;
}

interface Asked {
  readonly answer: AuthorityBytes | { readonly problem: string };
  /** A later answer may be another one. */
  readonly mayCome: boolean;
  readonly code?: RecoveryError['code'] | undefined;
}

/** The CA that the cluster publishes for a file of CAs here; or why there is none. */
export async function published(artefact: string, run: Obtaining): Promise<ObtainedAnswer> {
  const { resolved, store, leftMs, clock, log, signal } = run;
  const { facts } = await gather({ resolved, store, now: clock.now(), signal });
  const isUrgent = run.isUrgent(artefact);
  const request = {
    kubeconfig: kubeletKubeconfig(resolved),
    anchors: resolved.artefacts.flatMap((one) => (one.name === artefact ? heldBy(one, facts) : [])),
    held: resolved.artefacts.flatMap((one) => heldBy(one, facts)),
    isUrgent,
    clock,
    signal,
  };
  const met = new Repeats(clock);
  const look = async (): Promise<Asked> => {
    const asked = await ask(request);
    const isNews = asked.mayCome && (!isUrgent || met.met('offer') !== undefined);
    if (isNews && 'problem' in asked.answer) log.info('api.waiting', { err: asked.answer.problem });
    return asked;
  };
  const forMs = isUrgent ? leftMs() : 0;
  const patience = { forMs, everyMs: againMs, clock, signal };
  const { answer, mayCome, code } = await pollUntil(look, (asked) => !asked.mayCome, patience);
  if (!('problem' in answer)) return answer;
  if (!mayCome) log.warn('authority.refused', { code, err: answer.problem });
  return mayCome && isUrgent ? { problem: `${answer.problem}; waited ${durationText(forMs)}` } : answer;
}

async function ask({ kubeconfig, anchors, held, isUrgent, clock, signal }: CaRequest): Promise<Asked> {
  try {
    const { server, serverName } = await readServer(kubeconfig);
    const { readPublicObject } = await import('../kube/public-object.ts');
    const how = { path: clusterInfoPath, server, serverName, anchors, timeoutMs: tryMs, clock, signal };
    const object = await readPublicObject<ClusterInfo>(how);
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
    if (judgement.state === 'none' && isUrgent) {
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
