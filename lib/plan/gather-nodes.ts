// Reports of the cluster's nodes about the CAs in their files: one list each of Nodes, as their metadata, and of their
// Leases. Of every page only what becomes a row stays in memory.
import { type Clock, isRecent } from '../clock.ts';
import { errorText, isCode } from '../errors.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { Lease } from '../kube/leases.ts';
import { list } from '../kube/list.ts';
import type { NodeObject } from '../kube/received.ts';
import { bundlesAnnotation, parseBundles } from '../kube/reported-bundles.ts';
import { collectionPath } from '../kube/resources.ts';
import type { RenewalPolicy } from './decision.ts';
import { type Fleet, type FleetNode, judgeFleet, type NewCa, seenNode, type WantedBundles } from './judge-fleet.ts';

interface Asking {
  readonly connection: KubeConnection;
  readonly clock: Pick<Clock, 'now'>;
  readonly signal: AbortSignal;
}

/** Objects in one answer: a Node's metadata has some kilobytes, and a larger answer comes in smaller pages (list.ts). */
const size = 1000;

/** Nodes, judged by each of these. Throws errors of the connection. */
export async function gatherNodes(
  { clock, ...asking }: Asking,
  wanted: readonly WantedBundles[],
): Promise<readonly (readonly FleetNode[])[]> {
  const keep = ({ metadata: { name = '', annotations } = {} }: NodeObject) => {
    const reported = parseBundles(annotations?.[bundlesAnnotation]);
    return wanted.map((one) => seenNode(name, reported, one));
  };
  const renewal = ({ metadata, spec }: Lease) =>
    [metadata?.name ?? '', new Date(spec?.renewTime ?? Number.NaN)] as const;
  const [nodes, leases] = await Promise.all([
    list({ ...asking, path: collectionPath('Node'), objects: 'metadata', pages: { size, keep } }),
    list({ ...asking, path: collectionPath('Lease', 'kube-node-lease'), pages: { size, keep: renewal } }),
  ]);
  const renewals = new Map(leases.objects);
  const now = clock.now();
  return wanted.map((_, at) =>
    judgeFleet(
      nodes.objects.flatMap((seen) => seen[at] ?? []),
      renewals,
      now,
    ),
  );
}

/** Asks which nodes have new CAs. Never rejects. */
export type AskNodes = (cas: readonly NewCa[], signal: AbortSignal) => Promise<Fleet>;

/** Passes may follow each other at once, and the answer has a row for each node. */
const askAgainMs = 5000;

/** Undefined where no signer waits for nodes: then nothing is ever asked. */
export function askingNodes(
  { connection, clock }: Omit<Asking, 'signal'>,
  { waitForNodes }: Pick<RenewalPolicy, 'waitForNodes'>,
): AskNodes | undefined {
  if (waitForNodes === undefined) return undefined;
  let last: { readonly prints: string; readonly at: Date; readonly fleet: Fleet } | undefined;
  return async (cas, signal) => {
    const prints = cas.map(({ ca: { print } }) => print).join();
    if (last?.prints === prints && isRecent(last.at, askAgainMs, clock.now())) return last.fleet;
    const wanted = cas.map(
      ({ signer, ca }): WantedBundles =>
        new Map((waitForNodes.get(signer) ?? []).map((name) => [name, { of: signer, cas: [ca] }])),
    );
    const fleet = await gatherNodes({ connection, clock, signal }, wanted).then((judged): Fleet => {
      if (judged.every((nodes) => nodes.every(({ bundles }) => bundles === undefined)))
        return { state: 'none', why: 'no Node says which CAs it holds' };
      return { state: 'known', nodes: new Map(cas.map(({ ca: { print } }, at) => [print, judged[at] ?? []])) };
    }, failed);
    last = { prints, at: clock.now(), fleet };
    return fleet;
  };
}

const failed = (err: unknown): Fleet =>
  isCode(err, 'KubeForbidden')
    ? { state: 'none', why: 'the right to list Nodes and their Leases is missing' }
    : { state: 'unread', why: errorText(err) };
