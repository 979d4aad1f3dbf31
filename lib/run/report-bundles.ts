// The CAs on this node, for `status --fleet`: an annotation of its own Node, written as its kubelet, which alone may do so
// (NodeRestriction), so that no right has to be granted. Written only when it would say something else.
import type { RegenConfig } from '../config/mode-settings.ts';
import { errorFields } from '../errors.ts';
import { RunState } from '../host/state.ts';
import type { NodeObject } from '../kube/received.ts';
import { bundlesAnnotation, type HeldBundles, nextBundlesText, shortPrint } from '../kube/reported-bundles.ts';
import { resourcePath } from '../kube/resources.ts';
import { identityOf, inTime } from '../origin/other-cluster.ts';
import { understand } from '../plan/understand.ts';
import { componentsOf } from '../restart/decide.ts';
import { notLoaded } from '../restart/former-files.ts';
import type { Store } from '../store/store.ts';
import { asKubelet, credentialOfKubelet } from './as-kubelet.ts';
import type { Runtime } from './runtime.ts';

/** An administrator may have removed it; while the API server is away, nothing else waits for this. */
const pace = { againMs: 3_600_000, afterFailureMs: 60_000 };

/** Never rejects: what administrators see of this node is none of its repairs. */
export async function reportBundles({ lockDir }: RegenConfig, store: Store, runtime: Runtime): Promise<void> {
  const { clock, log, signal } = runtime;
  const path = credentialOfKubelet(runtime);
  if (path === undefined) return; // no node
  const state = new RunState(lockDir);
  const held = await heldHere(store, runtime, state);
  await state.whenDue('node-report', identityOf([...held]), { ...pace, clock }, async () => {
    try {
      const { node, isNews } = await inTime(signal, 'the Node', (limited) =>
        annotate(path, held, { ...runtime, signal: limited }),
      );
      if (isNews) log.info('bundles.reported', { node });
      return 'done';
    } catch (err) {
      if (signal.aborted) return 'open';
      const fields = { path, ...errorFields(err) };
      if (await state.isNews('node-report-failure', fields.err, clock.now())) log.warn('bundles.failed', fields);
      return 'failed';
    }
  });
}

/** Files of this node that follow objects, as far as they can be read. */
async function heldHere(store: Store, { resolved, clock, signal }: Runtime, state: RunState): Promise<HeldBundles> {
  const former = await notLoaded({ components: componentsOf(resolved), resolved, state, clock });
  const held = new Map<string, { readonly cas: readonly string[]; readonly loaded: boolean }>();
  for (const artefact of resolved.artefacts) {
    if (artefact.kind !== 'external' || artefact.inputs === undefined) continue;
    const found = await store.read(artefact.location, signal).catch(() => undefined);
    const facts = found && understand(artefact, found).facts;
    if (facts?.state !== 'present' || facts.held === undefined) continue;
    const cas = facts.held.map((one) => shortPrint(one.facts.fingerprint));
    held.set(artefact.name, { cas, loaded: !former.has(artefact.name) });
  }
  return held;
}

const annotate = (kubeconfig: string, held: HeldBundles, runtime: Runtime) =>
  asKubelet(kubeconfig, runtime, async (connection, node) => {
    const { clock, signal } = runtime;
    const path = resourcePath('Node', { name: node });
    const { metadata } = await connection.request<NodeObject>({ method: 'GET', path, signal });
    const next = nextBundlesText(metadata?.annotations?.[bundlesAnnotation], held, clock.now());
    if (next === undefined) return { node, isNews: false };
    const body = { metadata: { annotations: { [bundlesAnnotation]: next } } };
    await connection.request({ method: 'PATCH', path, contentType: 'application/merge-patch+json', body, signal });
    return { node, isNews: true };
  });
