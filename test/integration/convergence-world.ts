// One namespace of a real API server with a CA of every origin: made here, brought by others, an intermediate; bundles,
// one of others, what is composed of them, a copy. Everything that was made here has expired.
import { createPublicKey, X509Certificate } from 'node:crypto';
import { caBundleKey, certificateKey, privateKeyKey } from '../../lib/inventory/content.ts';
import { makeGeneration } from '../../lib/install/first-generation.ts';
import type { ApiLocation, Resolved, ResolvedArtefact, ResolvedTarget } from '../../lib/inventory/model.ts';
import { topologicalOrder } from '../../lib/inventory/order.ts';
import { collectionPath, apiKinds } from '../../lib/kube/resources.ts';
import { generateKey } from '../../lib/pki/key.ts';
import { signSigner } from '../../lib/pki/sign.ts';
import { objectOf } from '../../lib/store/api-store.ts';
import type { Entries } from '../../lib/store/store.ts';
import type { ControlPlane } from '../support/cluster/control-plane.ts';
import { algorithm } from '../support/faults/interleaving.ts';
import type { LiveObject } from '../support/faults/acts-of-others.ts';

const day = 24 * 3_600_000;

export interface ConvergenceWorld {
  readonly namespace: string;
  readonly resolved: Resolved;
  /** As they were uploaded, by artefact. */
  readonly first: ReadonlyMap<string, LiveObject>;
  readonly stranger: { readonly certificate: string; readonly key: string };
}

export type InApi = ResolvedArtefact & { readonly location: ApiLocation };

/** The CA that others brought, and that is valid for years. */
export const broughtSigner = 'brought';

export const publicKeyOf = (pem: string): string =>
  createPublicKey(new X509Certificate(pem).publicKey.export({ type: 'spki', format: 'pem' }))
    .export({ type: 'spki', format: 'der' })
    .toString('hex');

function inventory(namespace: string): Resolved {
  const secret = (name: string) => ({ kind: 'secret', namespace, name }) as const;
  const configMap = (name: string) => ({ kind: 'configMap', namespace, name }) as const;
  const signer = (name: string, issuer?: string): ResolvedArtefact => {
    const lives = { validity: 60 * day, refresh: 30 * day };
    return { kind: 'signer', name, location: secret(name), readers: [], ...lives, ...(issuer && { issuer }) };
  };
  const bundle = (name: string, ...signers: readonly string[]): ResolvedArtefact => {
    return { kind: 'caBundle', name, location: configMap(name), readers: [], signers };
  };
  const target = (name: string, issuer: string, usage: ResolvedTarget['usage']): ResolvedArtefact => {
    const hostnames = usage === 'client' ? [] : ['localhost'];
    const lives = { validity: 30 * day, refresh: 15 * day };
    const row = { kind: 'target', name, location: secret(name), readers: [], issuer, usage, ...lives } as const;
    return { ...row, commonName: name, organizations: [], hostnames };
  };
  const { ordered } = topologicalOrder<ResolvedArtefact>([
    signer('root'),
    bundle('root-ca', 'root'),
    signer('middle', 'root'),
    bundle('middle-ca', 'middle'),
    signer(broughtSigner),
    bundle('brought-ca', broughtSigner),
    { kind: 'external', name: 'theirs', location: configMap('theirs'), readers: [] },
    {
      kind: 'composedBundle',
      name: 'all-ca',
      location: configMap('all-ca'),
      readers: [],
      inputs: ['root-ca', 'middle-ca', 'brought-ca', 'theirs'],
    },
    { kind: 'copy', name: 'all-ca-copy', location: configMap('all-ca-copy'), readers: [], of: 'all-ca' },
    target('serving', 'root', 'serving'),
    target('middle-client', 'middle', 'client'),
    target('kubelet-client', broughtSigner, 'client'),
  ]);
  return { name: 'convergence', artefacts: ordered };
}

async function authority(commonName: string, now: Date): Promise<{ certificate: string; key: string }> {
  const made = await generateKey(algorithm);
  const [notBefore, notAfter] = [-800, 3000].map((days) => new Date(now.getTime() + days * day)) as [Date, Date];
  const { pem } = await signSigner({ commonName, key: made.key, notBefore, notAfter, now });
  return { certificate: pem, key: made.pem };
}

/** Made so long ago that all of it has expired, but for what others brought. */
export async function createWorld(
  controlPlane: Pick<ControlPlane, 'admin'>,
  namespace: string,
  now: Date,
): Promise<ConvergenceWorld> {
  const resolved = inventory(namespace);
  const [brought, theirs, stranger] = (await Promise.all(
    ['kubernetes', 'theirs', 'stranger'].map((name) => authority(name, now)),
  )) as [ConvergenceWorld['stranger'], ConvergenceWorld['stranger'], ConvergenceWorld['stranger']];
  const pair = { [certificateKey]: Buffer.from(brought.certificate), [privateKeyKey]: Buffer.from(brought.key) };
  const made = makeGeneration({
    resolved,
    now: new Date(now.getTime() - 400 * day),
    keyAlgorithm: algorithm,
    existing: new Map([[broughtSigner, { entries: pair, annotations: {} }]]),
  });
  const entries = new Map<string, Entries>([['theirs', { [caBundleKey]: Buffer.from(theirs.certificate) }]]);
  for await (const { artefact, material } of made) entries.set(artefact.name, material.entries);
  const post = async (path: string, body: unknown): Promise<void> => {
    const { status } = await controlPlane.admin(path, { method: 'POST', body });
    if (status !== 201) throw new Error(`POST ${path}: ${status}`);
  };
  await post('/api/v1/namespaces', { metadata: { name: namespace } });
  const first = new Map<string, LiveObject>();
  for (const { name, location } of objectsIn(resolved)) {
    const object = objectOf(location, entries.get(name) ?? {}) as unknown as LiveObject;
    await post(collectionPath(apiKinds[location.kind], namespace), object);
    first.set(name, object);
  }
  return { namespace, resolved, first, stranger };
}

export const objectsIn = ({ artefacts }: Resolved): readonly InApi[] =>
  artefacts.filter((one): one is InApi => one.location.kind === 'secret' || one.location.kind === 'configMap');
