// Builds the plain data that plan() takes, for tables: a small inventory and certificates given by their dates.
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import type { CertificateFacts } from '../../lib/pki/certificate.ts';
import type { ClockFacts } from '../../lib/plan/clock-rules.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';

export const day = 24 * 3_600_000;
export const start = new Date('2026-06-01T00:00:00Z');
export const at = (days: number): Date => new Date(start.getTime() + days * day);

export const onlyWhenExpired: RenewalPolicy = { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 };
export const beforeExpiry: RenewalPolicy = { ...onlyWhenExpired, kind: 'BeforeExpiry' };
export const goodClock: ClockFacts = { builtAt: at(-400), synchronised: true };
export const unknownClock: ClockFacts = { ...goodClock, synchronised: false };

const secret = (name: string) => ({ kind: 'secret', namespace: 'n', name }) as const;
const configMap = (name: string) => ({ kind: 'configMap', namespace: 'n', name }) as const;

export const signer = {
  kind: 'signer',
  name: 'signer',
  location: secret('signer'),
  readers: [],
  validity: 60 * day,
  refresh: 30 * day,
} satisfies ResolvedArtefact;
export const bundle = {
  kind: 'caBundle',
  name: 'bundle',
  location: configMap('bundle'),
  readers: [],
  signers: ['signer'],
} satisfies ResolvedArtefact;
export const target = {
  kind: 'target',
  name: 'target',
  location: secret('target'),
  readers: [],
  issuer: 'signer',
  usage: 'serving',
  organizations: [],
  hostnames: ['127.0.0.1', 'localhost'],
  validity: 30 * day,
  refresh: 15 * day,
} satisfies ResolvedArtefact;
export const composed = {
  kind: 'composedBundle',
  name: 'composed',
  location: configMap('composed'),
  readers: [],
  inputs: ['bundle'],
} satisfies ResolvedArtefact;
export const copy = {
  kind: 'copy',
  name: 'copy',
  location: configMap('copy'),
  readers: [],
  of: 'composed',
} satisfies ResolvedArtefact;

const theirPlace = (name: string) => ({ kind: 'configMap', namespace: 'theirs', name }) as const;
/** A bundle that others maintain, and one that is composed of it and ours. */
export const theirs = {
  kind: 'external',
  name: 'theirs',
  location: theirPlace('theirs'),
  readers: [],
} satisfies ResolvedArtefact;
export const both = {
  kind: 'composedBundle',
  name: 'both',
  location: theirPlace('both'),
  readers: [],
  inputs: ['bundle', 'theirs'],
} satisfies ResolvedArtefact;

export const chain: Resolved = { name: 'test', artefacts: [signer, bundle, composed, copy, target] };

/** A certificate known by its print, valid from and until the given day, signed by those prints. */
export function certificate(
  fingerprint: string,
  [from, until]: readonly [number, number],
  more: Partial<CertificateFacts> = {},
): CertificateFacts {
  return {
    fingerprint,
    subject: `CN=${fingerprint}`,
    issuer: 'CN=issuer',
    serial: '01',
    notBefore: at(from),
    notAfter: at(until),
    isCa: false,
    hostnames: ['127.0.0.1', 'localhost'],
    commonName: fingerprint,
    organizations: [],
    key: { name: 'RSA', bits: 2048 },
    signedBy: [],
    ...more,
  };
}

export function present(...certificates: readonly CertificateFacts[]): ArtefactFacts & { state: 'present' } {
  const digest = certificates.map(({ fingerprint }) => fingerprint).join();
  return { state: 'present', version: digest, certificates, digest };
}

/** Named as rotation names its CAs; `more` may name it as others do. */
export const ca = (
  print: string,
  days: readonly [number, number],
  more: Partial<CertificateFacts> = {},
): CertificateFacts =>
  certificate(print, days, {
    isCa: true,
    signedBy: [print],
    issuer: `CN=${print}`,
    commonName: `${print}@1780272000`,
    ...more,
  });
export const leaf = (
  print: string,
  days: readonly [number, number],
  by: string,
  more: Partial<CertificateFacts> = {},
): CertificateFacts => certificate(print, days, { signedBy: [by], ...more });

/** Everything healthy on day 0: signer from day -1 to 59, leaf from day -1 to 29. */
export function healthy(): Map<string, ArtefactFacts> {
  const authority = ca('ca', [-1, 59]);
  return new Map<string, ArtefactFacts>([
    ['signer', present(authority)],
    ['bundle', present(authority)],
    ['composed', present(authority)],
    ['copy', present(authority)],
    ['target', present(leaf('leaf', [-1, 29], 'ca'))],
  ]);
}
