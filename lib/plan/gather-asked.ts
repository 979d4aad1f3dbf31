// Facts that are asked for only where a plan depends on them, and once in a pass: which nodes have a new CA, and which
// certificates are in use on this node (its kubelet's own one, and what its API server shows in a handshake).
import { bareHost, serverAddress } from '../address.ts';
import type { Clock } from '../clock.ts';
import { errorText } from '../errors.ts';
import type { Resolved } from '../inventory/model.ts';
import { readKubeconfig } from '../kubeconfig/credentials.ts';
import { wholeCertificates } from '../pki/certificate.ts';
import { servedChain } from '../proof/served.ts';
import type { PlanInput } from './decision.ts';
import type { InUse, UsedChain } from './facts.ts';
import type { AskNodes } from './gather-nodes.ts';
import { type Plan, plan } from './plan.ts';

/** Answers in a pass. */
export type HeardFacts = { -readonly [Fact in 'fleet' | 'inUse']?: PlanInput[Fact] };

interface Asking {
  readonly resolved: Resolved;
  readonly askNodes?: AskNodes | undefined;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** `heard` as facts for a plan. */
export const answersOf = (heard: HeardFacts, { askNodes }: Pick<Asking, 'askNodes'>): HeardFacts => ({
  fleet: askNodes && { state: 'unasked' },
  ...heard,
});

/** Adds the answers that the plan depends on. Returns whether anything was asked. Never rejects. */
export async function ask({ decisions }: Plan, heard: HeardFacts, asking: Asking): Promise<boolean> {
  const { resolved, askNodes, signal } = asking;
  const cas = decisions.flatMap(({ asksNodes }) => asksNodes ?? []);
  const [asksNodes, asksUse] = [cas.length > 0, decisions.some((one) => one.asksUse === true)];
  if (askNodes !== undefined && heard.fleet === undefined && asksNodes) heard.fleet = await askNodes(cas, signal);
  else if (heard.inUse === undefined && asksUse) heard.inUse = await usedHere(resolved, asking);
  else return false;
  return true;
}

/** Adds all answers on which the plan depends. */
export async function withAnswers(input: PlanInput, asking: Asking): Promise<PlanInput> {
  const heard: HeardFacts = {};
  const planned = (): Plan => plan({ ...input, ...answersOf(heard, asking) });
  while (await ask(planned(), heard, asking)); // each is asked once
  return { ...input, ...heard };
}

/** A kubeconfig that is absent may lie elsewhere: then nothing is known of what is in use. */
async function usedHere({ artefacts }: Resolved, around: Pick<Asking, 'clock' | 'signal'>): Promise<InUse> {
  const files = artefacts.flatMap(({ location }) =>
    location.kind === 'kubeconfig' && location.context === 'current' ? [location.file] : [],
  );
  try {
    const chains = (await Promise.all(files.map((file) => usedBy(file, around)))).flat();
    return chains.length > 0 ? { chains } : { problem: 'no kubeconfig of a kubelet is known here' };
  } catch (err) {
    return { problem: errorText(err) };
  }
}

/** What the client of a kubeconfig shows its server, and the server shows it. */
async function usedBy(file: string, around: Pick<Asking, 'clock' | 'signal'>): Promise<readonly UsedChain[]> {
  const { server, serverName, clientCertificate } = await readKubeconfig(file);
  const url = new URL(server);
  const shown = await servedChain({ ...serverAddress(url), serverName: serverName ?? bareHost(url), ...around });
  const client = clientCertificate?.cert ?? '';
  const used = { [`the certificate of ${url.host}`]: shown, [`the client certificate of ${file}`]: client };
  return Object.entries(used).flatMap(([what, pem]) => {
    const [leaf, ...intermediates] = wholeCertificates(pem);
    return leaf === undefined ? [] : [{ what, chain: [leaf, ...intermediates] as const }];
  });
}
