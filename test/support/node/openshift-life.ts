// What becomes of an OpenShift control-plane machine of openshift.ts: its certificates end, and what is to be seen of them
// in the API, on its disk and in TLS handshakes.
import type { X509Certificate } from 'node:crypto';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connect } from 'node:tls';
import { systemClock } from '../../../lib/clock.ts';
import { readNamesInApi } from '../../../lib/inventory/discover/openshift.ts';
import type { ResolvedArtefact } from '../../../lib/inventory/model.ts';
import { withNames } from '../../../lib/inventory/names-in-api.ts';
import { loadPreset } from '../../../lib/inventory/preset.ts';
import { resolve } from '../../../lib/inventory/resolve.ts';
import { openConnection } from '../../../lib/kube/connection.ts';
import { createApiStore } from '../../../lib/store/api.ts';
import { eventually } from '../eventually.ts';
import { expire } from '../expire.ts';
import { bundles, composed, copies, csrSigner, leaves, pairCopies, signers } from '../openshift-objects.ts';
import { certificatesIn } from '../soundness.ts';
import type { Cluster } from './cluster.ts';
import { type Node, withScratch } from './node.ts';
import { certsOf, components, resources } from './openshift-pods.ts';

/** Ours, by the names of the containers whose places they have taken. */
const beside = /-(cert-syncer|cert-regeneration-controller|recovery-controller)$/;

/** Our containers of one machine stand still; the answer lets them go on. */
async function pause(node: Node): Promise<() => Promise<unknown>> {
  const list = await node.sh(
    `for id in $(ctr -n k8s.io tasks list --quiet); do
      echo "$id $(ctr -n k8s.io containers info "$id" | sed -n 's/.*"io.kubernetes.container.name": "\\(.*\\)".*/\\1/p' | head -n 1)"
    done`,
  );
  const ours = list.split('\n').flatMap((line) => {
    const [id = '', name = ''] = line.split(' ');
    return beside.test(name) ? [id] : [];
  });
  const each = (verb: string): Promise<string> =>
    node.sh(`for id in ${ours.join(' ')}; do ctr -n k8s.io tasks ${verb} "$id" || true; done`);
  await each('pause');
  return () => each('resume');
}

/**
 * The CAs by which kube-apiserver is known live as long as localhost-recovery's certificate and are made with it: when they
 * have ended nobody can be recovered. Components have them in a revision, which only an operator makes anew.
 */
const lasting = new Set([
  ...['localhost', 'service-network', 'loadbalancer', 'localhost-recovery'].flatMap((name) =>
    ['signer', 'ca'].map((what) => `${name}-serving-${what}`),
  ),
  'localhost-recovery-serving-certkey',
  'kube-apiserver-server-ca',
  'exported-kube-apiserver-server-ca',
]);

/**
 * Everything else ends at one moment, which is the answer: same keys, same names, real dates. The machine has it on disk
 * by then.
 */
export async function endSoon(cluster: Cluster, { inMs }: { readonly inMs: number }): Promise<number> {
  const { node } = cluster;
  let end = 0;
  await withScratch(async (scratch) => {
    const kubeconfigFile = join(scratch, 'kubeconfig');
    await writeFile(kubeconfigFile, cluster.kubeconfig());
    const connection = await openConnection({ kubeconfigFile, userAgent: 'test', clock: systemClock });
    const store = createApiStore({ connection, fieldManager: 'test' });
    const names = await readNamesInApi(connection, AbortSignal.timeout(5000));
    const [apiServer, controllerManager, scheduler] = components.map(({ preset }) =>
      withNames(resolve(loadPreset(preset), {}), names),
    );
    if (apiServer === undefined || controllerManager === undefined || scheduler === undefined)
      throw new Error('presets');
    // Halves of a set that was changed meanwhile look broken.
    const resume = await pause(node);
    try {
      const now = new Date();
      end = now.getTime() + inMs;
      const isCopy = ({ kind }: ResolvedArtefact): boolean => kind === 'copy';
      // They are made of each other: copies of what is made later follow at the end.
      for (const [resolved, which] of [
        [controllerManager, () => true],
        [apiServer, () => true],
        [controllerManager, isCopy],
        [scheduler, isCopy],
      ] as const) {
        const except = (row: ResolvedArtefact): boolean => lasting.has(row.name) || !which(row);
        // What signs and lives on may be not a minute old.
        await expire({ resolved, store, now, agoMs: -inMs, lifeMs: inMs + 10_000, except });
      }
    } finally {
      await resume();
      await connection.close();
    }
  });
  await eventually(
    async () => {
      const late = [...(await endsOnDisk(node))].filter(([, at]) => at.getTime() > end + 2000);
      if (late.length > 0) throw new Error(`not on disk yet: ${late.map(([name]) => name).join(', ')}`);
    },
    { withinMs: 10_000, everyMs: 300 },
  );
  return end;
}

export async function offPast(node: Node, end: number): Promise<void> {
  await node.off();
  await delay(end + 3000 - Date.now());
}

/** When certificates of the syncers' Secrets end, by `<component>/<name>`; the machine may be off. */
export async function endsOnDisk(node: Node): Promise<ReadonlyMap<string, Date>> {
  const copy = await node.copyOut(resources);
  try {
    const found = new Map<string, Date>();
    for (const component of components) {
      const secrets = join(copy, certsOf(component).slice(resources.length), 'secrets');
      for (const name of await readdir(secrets)) {
        const pem = await readFile(join(secrets, name, 'tls.crt'), 'utf8').catch(() => '');
        const [leaf] = certificatesIn(pem);
        if (leaf !== undefined) found.set(`${component.name}/${name}`, leaf.validToDate);
      }
    }
    return found;
  } finally {
    await rm(dirname(copy), { recursive: true, force: true });
  }
}

interface Stored {
  readonly data?: Readonly<Record<string, string>>;
}

async function certificatesOf(
  cluster: Cluster,
  kind: 'secrets' | 'configmaps',
  object: string,
): Promise<X509Certificate[]> {
  const [namespace, name] = object.split('/');
  const { status, body } = await cluster.api(`/api/v1/namespaces/${namespace}/${kind}/${name}`);
  if (status !== 200) throw new Error(`${object}: ${status}`);
  const { data = {} } = body as Stored;
  return certificatesIn(
    kind === 'secrets' ? Buffer.from(data['tls.crt'] ?? '', 'base64').toString() : (data['ca-bundle.crt'] ?? ''),
  );
}

/** What of the objects that the operators keep is not valid now, or not signed by what it names. Empty: all is well. */
export async function invalidInApi(cluster: Cluster): Promise<string[]> {
  const now = new Date();
  const isValid = ({ validFromDate, validToDate }: X509Certificate): boolean =>
    validFromDate <= now && now < validToDate;
  const pairs = [
    ...signers.map(([object]) => [object, object] as const),
    ...leaves.map(({ object, signer }) => [object, signer] as const),
    [csrSigner.object, csrSigner.signer] as const,
  ];
  const held = new Map<string, X509Certificate[]>();
  for (const [object] of [...pairs, ...pairCopies]) held.set(object, await certificatesOf(cluster, 'secrets', object));
  const problems: string[] = [];
  for (const [object, signer] of pairs) {
    const [[leaf], [above]] = [held.get(object) ?? [], held.get(signer) ?? []];
    if (leaf === undefined || above === undefined || !isValid(leaf)) problems.push(`${object} is not valid`);
    else if (!leaf.verify(above.publicKey)) problems.push(`${object} is not signed by ${signer}`);
  }
  for (const [object, of] of pairCopies) {
    const [[copy], [original]] = [held.get(object) ?? [], held.get(of) ?? []];
    if (copy?.fingerprint256 !== original?.fingerprint256) problems.push(`${object} is not ${of}`);
  }
  for (const [object] of [...bundles, ...composed, ...copies]) {
    const list = await certificatesOf(cluster, 'configmaps', object);
    if (list.length === 0 || !list.every(isValid)) problems.push(`${object} is not valid`);
  }
  return problems;
}

/** The SHA-256 fingerprint of what the API server serves to who asks for that name, verified with these CAs. */
export function served({ address }: Node, servername: string, ca: string): Promise<string> {
  return new Promise((done, failed) => {
    const socket = connect({ host: address, port: 6443, servername, ca, timeout: 5000 });
    socket.once('secureConnect', () => {
      done(socket.getPeerCertificate().fingerprint256);
      socket.destroy();
    });
    socket.once('timeout', () => socket.destroy(new Error(`no answer for ${servername}`)));
    socket.once('error', failed);
  });
}

export async function servedFromApi(cluster: Cluster, name: string): Promise<string | undefined> {
  const [leaf] = await certificatesOf(cluster, 'secrets', `openshift-kube-apiserver/${name}`);
  return leaf?.fingerprint256;
}

export interface Line {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly container: string;
  readonly event?: string;
  readonly artefact?: string;
  readonly lease?: string;
  readonly err?: string;
}

/** What our containers have written since then, by their own clock. */
export async function ownLog(node: Node, since: number): Promise<readonly Line[]> {
  const text = await node.sh(
    'cd /var/log/pods && grep -H "" openshift-*/*-syncer/*.log openshift-*/*-controller/*.log',
  );
  return text
    .split('\n')
    .flatMap((line): Line[] => {
      const [, container, json] = /^[^/]+\/([^/]+)\/[^:]*:\S+ \S+ \S (\{.*\})$/.exec(line) ?? [];
      if (container === undefined || json === undefined) return [];
      const { time, ...entry } = JSON.parse(json) as Omit<Line, 'at' | 'container'> & { readonly time: string };
      const at = Date.parse(time);
      return at >= since ? [{ ...entry, at, container }] : [];
    })
    .toSorted((a, b) => a.at - b.at);
}
