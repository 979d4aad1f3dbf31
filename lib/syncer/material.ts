// From objects of the API to entries, and from entries to facts: the bytes end here, project.ts sees data only.
import { isCode } from '../errors.ts';
import type { ConfigMap, Secret } from '../kube/kube.ts';
import { type Certificate, parseCertificates } from '../pki/certificate.ts';
import { parsePrivateKey, publicKeyMatches } from '../pki/key.ts';
import { pairMatches } from '../pki/pair.ts';
import { caBundleKey, certificateKey, privateKeyKey, type Entries } from '../store/store.ts';
import { materialKind, type MaterialFacts, type Validity } from './project.ts';
import type { SyncRow } from './rows.ts';

export type ApiObject = Secret | ConfigMap;

type Pairs = [string, Uint8Array][];

const decoded = (encoded: Readonly<Record<string, string>> | undefined): Pairs =>
  Object.entries(encoded ?? {}).map(([key, text]) => [key, Buffer.from(text, 'base64')]);

/** The entries of an object. A ConfigMap's `binaryData` are entries like its `data`; their keys never overlap. */
export function entriesOf(kind: 'secret' | 'configMap', object: ApiObject): Entries {
  if (kind === 'secret') return Object.fromEntries(decoded((object as Secret).data));
  const { data, binaryData } = object as ConfigMap;
  const texts = Object.entries(data ?? {}).map(([key, text]): [string, Uint8Array] => [key, Buffer.from(text)]);
  return Object.fromEntries([...texts, ...decoded(binaryData)]);
}

class Mismatch extends Error {}

/** What the entries of `row` are worth. Entries that are missing are project's to judge. */
export function factsOf({ expects, what }: Pick<SyncRow, 'expects' | 'what'>, entries: Entries): MaterialFacts {
  const kind = materialKind(expects, Object.keys(entries));
  try {
    if (kind.kind === 'pair') return pairFacts(entries, what);
    if (kind.kind === 'bundle') return bundleFacts(entries, what);
    return kind.kind === 'keyPair' ? keyPairFacts(entries, kind, what) : {};
  } catch (err) {
    if (err instanceof Mismatch) return { problem: { reason: 'mismatchedPair', message: err.message } };
    if (!isCode(err, 'MaterialInvalid')) throw err;
    // The parsers name the object themselves; the message that project makes names it too.
    const message = err.message.replace(` of ${what}`, '').replace(/^Cannot/, 'cannot');
    return { problem: { reason: 'unreadable', message } };
  }
}

function pairFacts(entries: Entries, what: string): MaterialFacts {
  const [pem, key] = [entries[certificateKey], entries[privateKeyKey]];
  if (pem === undefined || key === undefined) return {};
  const [leaf] = parseCertificates(pem, what);
  if (leaf === undefined) return {};
  if (!pairMatches(leaf, key, what)) {
    throw new Mismatch(`"${certificateKey}" was not made for the key in "${privateKeyKey}", a matching pair is wanted`);
  }
  return { validity: [validityOf(leaf)] };
}

function bundleFacts(entries: Entries, what: string): MaterialFacts {
  const pem = entries[caBundleKey];
  if (pem === undefined) return {};
  return { validity: parseCertificates(pem, what).map(validityOf) };
}

function validityOf({ facts: { notBefore, notAfter } }: Certificate): Validity {
  return { notBefore, notAfter };
}

function keyPairFacts(entries: Entries, names: { privateKey: string; publicKey: string }, what: string): MaterialFacts {
  const [privatePem, publicPem] = [entries[names.privateKey], entries[names.publicKey]];
  if (privatePem === undefined || publicPem === undefined) return {};
  const key = parsePrivateKey(privatePem, what);
  if (!publicKeyMatches(publicPem, key, what)) {
    throw new Mismatch(`"${names.publicKey}" does not hold the public half of "${names.privateKey}"`);
  }
  return {};
}
