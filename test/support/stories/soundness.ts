// Whether the material of an inventory is whole: an opinion of its own (node:crypto), which shares no code with what is
// tested. It looks at plain entries, so the same check is for objects of the API and for files on disk.
import { createPrivateKey, X509Certificate } from 'node:crypto';
import type { Copy, Resolved, ResolvedArtefact } from '../../../lib/inventory/model.ts';
import type { ControlPlane } from '../cluster/control-plane.ts';

/** PEM text by key, of each artefact that is there, by the artefact's name. */
export type Contents = ReadonlyMap<string, Readonly<Record<string, string>>>;

/** What the API holds now, by an admin's plain requests. Only artefacts whose location is there. */
export async function contentsInApi(
  controlPlane: Pick<ControlPlane, 'admin'>,
  { artefacts }: Resolved,
): Promise<Contents> {
  const read = async ({ name, location }: ResolvedArtefact): Promise<[string, Record<string, string>] | undefined> => {
    if (location.kind !== 'secret' && location.kind !== 'configMap') return undefined;
    const resource = location.kind === 'secret' ? 'secrets' : 'configmaps';
    const path = `/api/v1/namespaces/${location.namespace}/${resource}/${location.name}`;
    const { status, body } = await controlPlane.admin(path);
    if (status === 404) return undefined;
    if (status !== 200) throw new Error(`GET ${path}: ${status}`);
    const { data, binaryData } = body as Partial<Record<'data' | 'binaryData', Readonly<Record<string, string>>>>;
    const text = (value: string): string => Buffer.from(value, 'base64').toString();
    const isText = location.kind === 'configMap';
    const plain = Object.entries(data ?? {}).map(([key, value]) => [key, isText ? value : text(value)] as const);
    const binary = Object.entries(binaryData ?? {}).map(([key, value]) => [key, text(value)] as const);
    return [name, Object.fromEntries([...plain, ...binary])];
  };
  const found = await Promise.all(artefacts.map(read));
  return new Map(found.filter((one) => one !== undefined));
}

export const certificatesIn = (pem: string): X509Certificate[] =>
  (pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []).map(
    (one) => new X509Certificate(one),
  );

/** What is wrong with one object by itself: an entry is empty, or the certificate is not that of the key. */
export function damage(entries: Readonly<Record<string, string>>): string | undefined {
  const empty = Object.entries(entries).find(([, text]) => text === '');
  if (empty !== undefined) return `"${empty[0]}" is empty`;
  const { 'tls.crt': cert, 'tls.key': key, 'ca-bundle.crt': bundle } = entries;
  if (bundle !== undefined && certificatesIn(bundle).length === 0) return 'the bundle holds no certificate';
  if (cert === undefined && key === undefined) return undefined;
  if (cert === undefined || key === undefined) return 'half of the pair is missing';
  const [leaf] = certificatesIn(cert);
  if (leaf === undefined) return 'no certificate can be read';
  try {
    return leaf.checkPrivateKey(createPrivateKey(key)) ? undefined : 'certificate and key are of two generations';
  } catch {
    return 'no key can be read';
  }
}

/** Everything that is wrong with the artefacts at this time; one line each, none when all is well. */
export function problems({ artefacts }: Resolved, contents: Contents, now: Date): string[] {
  const rows = artefacts.filter(({ kind }) => kind !== 'keyPair' && kind !== 'external' && kind !== 'opaque');
  return rows.flatMap((row) => {
    const problem = problemOf(row, { artefacts, contents, now });
    return problem === undefined ? [] : [`${row.name}: ${problem}`];
  });
}

interface Surroundings {
  readonly artefacts: readonly ResolvedArtefact[];
  readonly contents: Contents;
  readonly now: Date;
}

function problemOf(row: ResolvedArtefact, { artefacts, contents, now }: Surroundings): string | undefined {
  const entries = contents.get(row.name);
  if (entries === undefined) return 'it is not there';
  const broken = damage(entries);
  if (broken !== undefined) return broken;
  const held = certificatesIn(entries['ca-bundle.crt'] ?? '');
  const holds = (wanted: X509Certificate): boolean =>
    held.some(({ fingerprint256 }) => fingerprint256 === wanted.fingerprint256);
  const validIn = (name: string): X509Certificate[] => {
    const { 'ca-bundle.crt': bundle = '', 'tls.crt': own = '' } = contents.get(name) ?? {};
    return [...certificatesIn(bundle), ...certificatesIn(own).slice(0, 1)].filter((one) => isValid(one, now));
  };
  switch (row.kind) {
    case 'signer':
    case 'target': {
      const [leaf] = certificatesIn(entries['tls.crt'] ?? '');
      if (leaf === undefined || !isValid(leaf, now)) return `not valid: until ${leaf?.validTo ?? 'never'}`;
      const issuer = row.issuer ?? row.name;
      const trusted = artefacts
        .filter((one) => one.kind === 'caBundle' && one.signers.includes(issuer))
        .flatMap(({ name }) => validIn(name));
      return trusted.some((ca) => leaf.checkIssued(ca) && leaf.verify(ca.publicKey))
        ? undefined
        : `no certificate in a bundle of ${issuer} has signed it`;
    }
    case 'caBundle':
      return row.signers.flatMap(validIn).every(holds) ? undefined : 'it lacks a signer';
    case 'composedBundle':
      return row.inputs.flatMap(validIn).every(holds) ? undefined : 'it lacks a certificate of its inputs';
    case 'copy': {
      if (row.promoteAfter !== undefined) return promotedProblem(row, { artefacts, contents, now });
      return JSON.stringify(contents.get(row.of)) === JSON.stringify(entries) ? undefined : 'it is unlike its original';
    }
    case 'kubeconfigs': {
      const parts = [...Object.values(contents.get(row.client) ?? {}), contents.get(row.authority)?.['ca-bundle.crt']];
      const texts = parts.map((part = 'nothing') => Buffer.from(part).toString('base64'));
      const isWhole = row.servers.every(({ key }) => texts.every((text) => entries[key]?.includes(text) === true));
      return isWhole ? undefined : `it lacks something of ${row.client} or of ${row.authority}`;
    }
    case 'keyPair':
    case 'external':
    case 'opaque':
      return undefined;
  }
}

/** It may hold the generation before its original's, which is still trusted: the bundles of its original hold it. */
function promotedProblem(row: Copy, { artefacts, contents, now }: Surroundings): string | undefined {
  const [leaf] = certificatesIn(contents.get(row.name)?.['tls.crt'] ?? '');
  if (leaf === undefined || !isValid(leaf, now)) return `not valid: until ${leaf?.validTo ?? 'never'}`;
  const isHeld = artefacts
    .filter((one) => one.kind === 'caBundle' && one.signers.includes(row.of))
    .every(({ name }) =>
      certificatesIn(contents.get(name)?.['ca-bundle.crt'] ?? '').some(
        ({ fingerprint256 }) => fingerprint256 === leaf.fingerprint256,
      ),
    );
  return isHeld ? undefined : `a bundle of ${row.of} does not hold it`;
}

function isValid({ validFromDate, validToDate }: X509Certificate, now: Date): boolean {
  return validFromDate <= now && now < validToDate;
}
