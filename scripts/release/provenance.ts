// The origin of the files of a release, as a statement of in-toto with SLSA's predicate (slsa.dev/spec/v1.0/provenance).
// Facts of git alone, so two builds state the same; who signs it vouches for it. Pure.
import type { Stamp } from '../build-stamp.ts';

export interface Commit {
  /** In full; empty without git. */
  readonly commit: string;
  /** Digest of the directory's content. */
  readonly tree: string;
}

/** `sums`: SHA-256 by the name of the file. */
export function provenance(
  { version, commit: stamped, builtAt }: Stamp,
  { commit, tree }: Commit,
  sums: Readonly<Record<string, string>>,
): string {
  const isWhole = !stamped.endsWith('-dirty') && commit !== '';
  const source = {
    name: 'kube-cert-recovery',
    ...(commit !== '' && { digest: { gitCommit: commit, gitTree: tree } }),
    // Else the commit does not make these files.
    annotations: { committedAt: builtAt, isWhole },
  };
  const statement = {
    _type: 'https://in-toto.io/Statement/v1',
    subject: Object.entries(sums).map(([name, sha256]) => ({ name, digest: { sha256 } })),
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: 'urn:kube-cert-recovery:release:v1',
        externalParameters: { command: 'npm run release', version },
        resolvedDependencies: [source],
      },
      runDetails: { builder: { id: 'urn:kube-cert-recovery:anyone' } },
    },
  };
  return `${JSON.stringify(statement, undefined, 2)}\n`;
}
