// Reads of `status --fleet`: each object that files of nodes follow once, and the reports of nodes (gather-nodes.ts).
import type { Clock } from '../clock.ts';
import { RecoveryError } from '../errors.ts';
import type { External, Inventory } from '../inventory/model.ts';
import { isFile } from '../inventory/places.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { shortPrint } from '../kube/reported-bundles.ts';
import type { ArtefactFacts } from '../plan/facts.ts';
import { gather } from '../plan/gather.ts';
import { gatherNodes } from '../plan/gather-nodes.ts';
import type { WantedBundle } from '../plan/judge-fleet.ts';
import { offeredTo } from '../plan/union-rules.ts';
import { createApiStore } from '../store/api-store.ts';
import { locationText } from '../store/store.ts';
import type { FleetReport } from './fleet-text.ts';

interface FleetOptions {
  readonly inventory: Pick<Inventory, 'name' | 'artefacts'>;
  readonly connection: KubeConnection;
  readonly clock: Pick<Clock, 'now'>;
  readonly signal: AbortSignal;
}

/** Throws errors of the connection, MaterialInvalid, and ConfigInvalid for an inventory of another kind. */
export async function gatherFleet(options: FleetOptions): Promise<FleetReport> {
  const { inventory, clock, ...asking } = options;
  const externals = inventory.artefacts.filter((one) => one.kind === 'external');
  const followers = externals.filter(({ inputs, location }) => inputs !== undefined && isFile(location));
  if (followers.length === 0) {
    const what = `no file of inventory "${inventory.name}" follows an object, as those of node-ca do`;
    throw new RecoveryError('ConfigInvalid', `Cannot compare nodes: ${what}`);
  }
  const inputs = externals.filter(({ name }) => followers.some((one) => one.inputs?.includes(name)));
  const store = createApiStore({ connection: asking.connection, fieldManager: '' });
  const resolved = { name: inventory.name, artefacts: inputs };
  const { facts, failures } = await gather({ resolved, store, now: clock.now(), signal: asking.signal });
  const [failure] = failures.values();
  if (failure !== undefined) throw failure;
  const empty = inputs.find(
    (one) =>
      one.presence !== 'optional' && wantedBy({ ...one, inputs: [one.name] }, facts, clock.now()).cas.length === 0,
  );
  if (empty !== undefined) {
    const state = `${locationText(empty.location)} is absent, or holds no CA that is valid now`;
    throw new RecoveryError('MaterialInvalid', `Cannot compare nodes: ${state}; they follow it (docs/node-ca.md)`);
  }
  const each = followers.map((one) => [one.name, wantedBy(one, facts, clock.now())] as const);
  const wanted = new Map(each.filter(([, { cas }]) => cas.length > 0));
  const [nodes = []] = await gatherNodes({ ...asking, clock }, [wanted]);
  return { at: clock.now(), wanted, nodes };
}

/** CAs that a file is to hold, of the objects that it follows. */
function wantedBy(artefact: External, facts: ReadonlyMap<string, ArtefactFacts>, now: Date): WantedBundle {
  const cas = offeredTo({ artefact, facts, now }).map(({ facts: { fingerprint, subject, notAfter } }) => ({
    print: shortPrint(fingerprint),
    name: subject,
    expirationDate: notAfter,
  }));
  return { of: artefact.inputs?.join(',') ?? '', cas };
}
