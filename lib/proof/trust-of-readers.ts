// The CAs by which readers verify a serving certificate, as far as they are on this machine, and the names that readers
// use: the served certificate is verified with these, as in each reader's handshake.
import { readFile } from 'node:fs/promises';
import { caBundleKey, certificateKey } from '../inventory/content.ts';
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { bundlesAbove, madeOf } from '../inventory/order.ts';
import { fileOf } from '../inventory/places.ts';
import { type Certificate, wholeCertificates } from '../pki/certificate.ts';
import { verifyChain } from '../pki/verify.ts';

export interface ReadersTrust {
  /** One CA bundle per kind of reader. */
  readonly bundles: readonly (readonly Certificate[])[];
  readonly names: readonly string[];
}

interface Around {
  readonly resolved: Resolved;
  readonly destinationDir?: string | undefined;
  /** Server name that is used for it. */
  readonly serverName: string;
}

/** Returns no bundle for a certificate that another CA has signed: its readers are not known here. */
export async function trustOfReaders(artefact: ResolvedArtefact, around: Around): Promise<ReadersTrust> {
  if (artefact.kind !== 'target') return { bundles: [], names: [] };
  const { serverName, destinationDir } = around;
  const { artefacts } = around.resolved;
  const above = bundlesAbove(artefacts, artefact);
  const issuer = artefacts.filter(({ name }) => name === artefact.issuer);
  const places =
    above.length === 0
      ? issuer.map((one) => fileOf(one, certificateKey, destinationDir))
      : [...above, ...madeOf(artefacts, above)].map((one) => fileOf(one, caBundleKey, destinationDir));
  const [chain, ...bundles] = await Promise.all(
    [fileOf(artefact, certificateKey, destinationDir), ...new Set(places)].map(certificatesIn),
  );
  const isKnownTo = (bundle: readonly Certificate[]): boolean =>
    bundle.some((root) => chain?.some(({ fields }) => fields.issuer.der.equals(root.fields.subject.der)) === true);
  // Names of a certificate that is renewed as it is are demanded or its administrator's choice.
  const isDeclared = artefact.template !== 'present' && artefact.hostnames.includes(serverName);
  const usual = isDeclared ? [serverName] : [];
  return { bundles: bundles.filter(isKnownTo), names: artefact.demandedHostnames ?? usual };
}

/** None where the file cannot be read: then it has no effect. */
async function certificatesIn(path: string | undefined): Promise<readonly Certificate[]> {
  return path === undefined ? [] : readFile(path).then(wholeCertificates, () => []);
}

/** Why a reader refuses the chain of a server, leaf first; undefined: all accept it. Pure. */
export function refusalOf(
  chain: readonly Certificate[],
  { bundles, names }: ReadersTrust,
  at: Date,
): string | undefined {
  const [leaf, ...intermediates] = chain;
  if (leaf === undefined) return 'no certificate is presented';
  for (const roots of bundles) {
    for (const hostname of names.length === 0 ? [undefined] : names) {
      const answer = verifyChain({ leaf, intermediates, roots, at, usage: 'serverAuth', hostname });
      if (!answer.ok) return answer.reason;
    }
  }
  return undefined;
}
