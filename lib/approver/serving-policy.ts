// Requests of kubelets for their serving certificates: gathers facts, applies the rules (serving-request.ts,
// addresses.ts). Nothing is recorded: the requester is the node itself, by a certificate that is valid.
import { bounds } from '../bounds.ts';
import { judgeClock } from '../plan/clock-rules.ts';
import { getIfPresent } from '../kube/objects.ts';
import type { NodeObject } from '../kube/received.ts';
import { resourcePath } from '../kube/resources.ts';
import { controlPlaneLabel, formerControlPlaneLabel, kubeletSigners } from '../well-known.ts';
import { addressSource } from './address-sources.ts';
import { type AddressSource, canBeCovered, type Following, judgeAddresses, type SourceAnswer } from './addresses.ts';
import { ClusterFacts, servicesAsked } from './cluster-facts.ts';
import { isClusterName, nodeName } from './cluster-names.ts';
import { contentOf } from './node-facts.ts';
import { nodeOfClusterName, type SigningRequest, unsuitable } from './request.ts';
import { judgeServingRequest, requestingNode } from './serving-request.ts';
import type { ApproverOptions } from './settings.ts';
import type { Judged, SignerPolicy } from './signer-policy.ts';

const mostServices = bounds.request.most.services;

export class ServingPolicy implements SignerPolicy {
  readonly signer = kubeletSigners['kubelet-serving'];
  readonly #options: ApproverOptions;
  readonly #sources: readonly AddressSource[];
  readonly #cluster: ClusterFacts;

  constructor(options: ApproverOptions) {
    this.#options = options;
    this.#cluster = new ClusterFacts(options);
    const { addresses = [] } = options;
    this.#sources = addresses.map((settings, at) =>
      addressSource(`approver.addresses[${at}] (${settings.kind})`, settings, options),
    );
  }

  begin(): void {
    for (const source of this.#sources) source.begin?.();
  }

  see(): void {}

  /**
   * All are judged: no other controller decides about requests for this signer, so unsuitable requesters are reported.
   */
  concerns(): boolean {
    return true;
  }

  nodeOf(request: SigningRequest): string | undefined {
    return requestingNode(request);
  }

  async judge(request: SigningRequest): Promise<Judged> {
    const shape = judgeServingRequest(request, () => contentOf(request));
    if (shape.action !== 'judge') return shape;
    const { node, asked } = shape;
    if (isClusterName(node)) return unsuitable('NameOfCluster', nodeOfClusterName(node));
    const services = servicesAsked(asked).size;
    if (services > mostServices) {
      const message = `it asks for names of ${services} Services (\`NAME.NAMESPACE\`), wanted ${mostServices} at most: no machine has so many`;
      return unsuitable('NamesForbidden', message);
    }
    const [object, cluster] = await Promise.all([
      getIfPresent<NodeObject>(this.#options, resourcePath('Node', { name: node })),
      this.#cluster.namesFor(asked),
    ]);
    if (object === undefined) {
      const message = 'there is no Node of this name: a kubelet registers it before it asks';
      return { action: 'leave', node, reason: 'NodeUnknown', message };
    }
    const question = { node, object, asked };
    const ask = (isCostly: boolean): Promise<readonly SourceAnswer[]> =>
      Promise.all(
        this.#sources
          .filter((source) => (source.isCostly ?? false) === isCostly)
          .map((source) => source.answer(question)),
      );
    let answers = await ask(false);
    const asking = { node, isControlPlane: isControlPlane(object), asked, cluster };
    let verdict = judgeAddresses({ ...asking, answers });
    if (canBeCovered(verdict)) {
      // A certificate served now counts while it is valid, so a clock that is behind would accept an expired one.
      const implausible = judgeClock({ clock: await this.#options.clockFacts(false), now: this.#options.clock.now() });
      if (implausible !== undefined && this.#sources.some(({ isCostly = false }) => isCostly))
        return { action: 'leave', node, isKnown: true, reason: 'ClockImplausible', message: implausible.message };
      answers = [...answers, ...(await ask(true))];
      verdict = judgeAddresses({ ...asking, answers });
    }
    if (verdict.action === 'approve')
      verdict = judgeAddresses({
        ...asking,
        answers,
        cluster: await this.#cluster.namesNow([...asked, nodeName(node)]),
      });
    return { node, isKnown: true, ...verdict };
  }

  async follow(following: Following): Promise<void> {
    await Promise.all(this.#sources.map(async (source) => source.follow?.(following)));
  }
}

const isControlPlane = ({ metadata }: NodeObject): boolean =>
  [controlPlaneLabel, formerControlPlaneLabel].some((label) => metadata?.labels?.[label] !== undefined);
