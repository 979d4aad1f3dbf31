// What becomes of an OpenShift control-plane machine of openshift.ts: its certificates end, and what is to be seen of them
// in the API, on its disk and in TLS handshakes.
import type { X509Certificate } from 'node:crypto';
import { readdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connect } from 'node:tls';
import { readNamesInApi } from '../../../lib/inventory/discover/openshift.ts';
import type { ResolvedArtefact } from '../../../lib/inventory/model.ts';
import { withNames } from '../../../lib/inventory/names-in-api.ts';
import { loadPreset } from '../../../lib/inventory/preset.ts';
import { resolve } from '../../../lib/inventory/resolve.ts';
import { eventually } from '../eventually.ts';
import { expireAll } from '../cluster/expire.ts';
import {
  bundles,
  composed,
  copies,
  csrSigner,
  leaves,
  openshiftPresets,
  pairCopies,
  signers,
} from '../cluster/openshift-objects.ts';
import { certificatesIn } from '../stories/soundness.ts';
import { withStore } from './cluster-store.ts';
import type { Cluster } from './cluster.ts';
import { containerLog } from './container-log.ts';
import type { Node } from './node.ts';
import { entriesOf } from './openshift-files.ts';
import { certsOf, components, resources } from './openshift-pods.ts';
import { standStill } from './stand-still.ts';

/** Ours, by the names of the containers whose places they have taken. */
const beside = '-(cert-syncer|cert-regeneration-controller|recovery-controller)$';

/**
 * The CAs by which kube-apiserver is known live as long as localhost-recovery's certificate and are made with it: when they
 * have ended nothing can be recovered. Components have them in a revision, which only an operator makes.
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
  await withStore(cluster, async ({ connection, store }) => {
    const names = await readNamesInApi(connection, AbortSignal.timeout(60_000));
    const inventories = openshiftPresets.map((preset) => {
      return { store, resolved: withNames(resolve(loadPreset(preset), {}), names) };
    });
    const resume = await standStill(node, beside);
    try {
      const now = new Date();
      end = now.getTime() + inMs;
      const except = ({ name }: ResolvedArtefact): boolean => lasting.has(name);
      // What signs and lives on may be not a minute old.
      await expireAll(inventories, { now, agoMs: -inMs, lifeMs: inMs + 10_000, except });
    } finally {
      await resume();
    }
  });
  await eventually(
    async () => {
      const late = [...(await endsOnDisk(node))].filter(([, at]) => at.getTime() > end + 2000);
      if (late.length > 0) throw new Error(`not on disk yet: ${late.map(([name]) => name).join(', ')}`);
    },
    { everyMs: 300 },
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

async function certificatesOf(
  cluster: Cluster,
  kind: 'secret' | 'configMap',
  object: string,
): Promise<X509Certificate[]> {
  const entries = await entriesOf(cluster, kind, object);
  if (entries === undefined) throw new Error(`${object} is not there`);
  return certificatesIn(entries[kind === 'secret' ? 'tls.crt' : 'ca-bundle.crt']?.toString() ?? '');
}

/** What of the objects that the operators keep is not valid now, or not signed by what it names. Empty: all is well. */
export async function invalidInApi(cluster: Cluster): Promise<string[]> {
  const now = new Date();
  const isValid = ({ validFromDate, validToDate }: X509Certificate): boolean =>
    validFromDate <= now && now < validToDate;
  const isKept = ({ validFromDate, validToDate }: X509Certificate): boolean =>
    validFromDate <= now && now.getTime() < validToDate.getTime() + 5 * 60_000;
  const pairs = [
    ...signers.map(([object]) => [object, object] as const),
    ...leaves.map(({ object, signer }) => [object, signer] as const),
    [csrSigner.object, csrSigner.signer] as const,
  ];
  const held = new Map<string, X509Certificate[]>();
  for (const [object] of [...pairs, ...pairCopies]) held.set(object, await certificatesOf(cluster, 'secret', object));
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
    const list = await certificatesOf(cluster, 'configMap', object);
    // What has just ended stays for machines whose clock is behind.
    if (!list.some(isValid) || !list.every(isKept)) problems.push(`${object} is not valid`);
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
  const [leaf] = await certificatesOf(cluster, 'secret', `openshift-kube-apiserver/${name}`);
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
  const log = await containerLog(node, 'openshift-*/*-syncer/*.log openshift-*/*-controller/*.log', since);
  return log
    .map(({ file, ...line }) => ({ ...line, container: file.split('/')[1] ?? '' }))
    .toSorted((a, b) => a.at - b.at);
}
