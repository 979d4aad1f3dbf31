// A kubeconfig as the home of a client certificate: read from the document or from the files that it names, and written
// where it was read. A kubeconfig made from nothing is like kubeadm's (kubernetes/kubernetes
// cmd/kubeadm/app/util/kubeconfig): cluster `kubernetes`, its user named like the common name of the certificate.
import {
  evidentContextName,
  insecureFlag,
  type KubeconfigReading,
  type KubeconfigView,
  readKubeconfigView,
  type Source,
  textDamage,
} from '../kubeconfig/document.ts';
import { RecoveryError } from '../errors.ts';
import type { Endpoints, LocationOf } from '../inventory/model.ts';
import { parseCertificates } from '../pki/certificate.ts';
import { editYaml, toYaml, yamlText } from '../yaml.ts';
import { issuedHere } from '../pki/issued-here.ts';
import { certificateFile, entryIn, holdsCertificate, holdsKey, putTogether } from './pem-blocks.ts';
import { credentialsOfOthers } from './others-content.ts';
import { bytesOf, type Change, type Layout, type Part, type ReadFile, type Understood } from './disk-layout.ts';
import { authorityKey, type Entries, locationText } from './store.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';

type KubeconfigLocation = LocationOf<'kubeconfig'>;

const documentRole = 'kubeconfig';
const clusterName = 'kubernetes';

export function kubeconfigLayout(location: KubeconfigLocation, endpoints: Endpoints = {}): Layout {
  const { file } = location;
  const issued = issuedHere(endpoints.authorities);
  const servers = {
    ...(location.context === 'current' ? {} : { ...endpoints, issued }),
    anyUser: location.only === 'ca',
  };
  const view: View = (bytes) => readKubeconfigView(file, bytes, servers);
  return {
    async look(read) {
      const bytes = await read(file);
      const files = referencesOf(location, bytes, view);
      const rest = files.map(async (each): Promise<Part> => ({ ...each, bytes: await read(each.file) }));
      const parts = await Promise.all(rest);
      const known = await knownCredentials(location, parts, read);
      return [{ role: documentRole, file, bytes }, ...parts, ...known];
    },
    understand: (parts) => understand(location, parts, view),
    async change(next, parts, earlier) {
      const { foreign } = credentialsOfOthers(location, parts) ?? {};
      if (foreign !== undefined) throw refusal(location, `${foreign}; move that away`);
      const { document, certificate, key } = await newDocument({ location, endpoints, view, next, parts, earlier });
      const changes = fileChanges(next, parts, { certificate, key });
      const before = bytesOf(parts, documentRole);
      if (before !== undefined && Buffer.from(document).equals(before)) return changes;
      return [...changes, documentChange(file, document)];
    },
    putBack(kept) {
      const bytes = kept.get(documentRole);
      if (bytes === undefined) return [];
      const files = referencesOf(location, bytes, view).flatMap(({ role, file: at, foreign }) => {
        const content = kept.get(role);
        return content === undefined || foreign === true ? [] : [credentialChange(at, content, role !== 'client.crt')];
      });
      return [...files, documentChange(file, bytes)];
    },
  };
}

const knownRole = 'known.pem';

/** The file that holds the credentials according to the inventory, where a file that the document names is absent. */
async function knownCredentials(
  { credentials }: KubeconfigLocation,
  named: readonly Part[],
  read: ReadFile,
): Promise<Part[]> {
  const isLost = named.some(({ bytes, foreign }) => bytes === undefined && foreign !== true);
  if (credentials === undefined || !isLost || named.some(({ file }) => file === credentials)) return [];
  return [{ role: knownRole, file: credentials, bytes: await read(credentials), foreign: true }];
}

type View = (bytes: Uint8Array) => KubeconfigReading;

/** Files that the document names; for an absent document, the file that a new one would name. */
function referencesOf(location: KubeconfigLocation, bytes: Uint8Array | undefined, view: View): Omit<Part, 'bytes'>[] {
  const reading = bytes === undefined ? undefined : view(bytes);
  if (reading !== undefined && 'foreign' in reading)
    return named('client.crt', reading.certificate ?? { kind: 'none' }).map((part) => ({ ...part, foreign: true }));
  if (reading === undefined || 'problem' in reading) {
    return location.credentials === undefined ? [] : [{ role: 'client.pem', file: location.credentials }];
  }
  const { certificate, key, authority } = reading;
  const one = certificate.kind === 'file' && key.kind === 'file' && certificate.file === key.file;
  return [
    ...(one ? named('client.pem', certificate) : [...named('client.crt', certificate), ...named('client.key', key)]),
    ...named('ca.crt', authority).map((part) => ({ ...part, foreign: true })),
  ];
}

const named = (role: string, source: Source): { role: string; file: string }[] =>
  source.kind === 'file' ? [{ role, file: source.file }] : [];

function understand(location: KubeconfigLocation, parts: readonly Part[], view: View): Understood | undefined {
  const document = bytesOf(parts, documentRole);
  if (document === undefined) return undefined;
  const what = locationText(location);
  const reading = view(document);
  if ('problem' in reading) return { entries: {}, problem: `Cannot use ${what}: ${reading.problem}` };
  // A role, and not a path: a backup holds files of an earlier time under their roles.
  const content = (source: Source, ...roles: readonly string[]): Uint8Array | undefined =>
    source.kind === 'data'
      ? source.bytes
      : source.kind === 'file'
        ? roles.map((role) => bytesOf(parts, role)).find((bytes) => bytes !== undefined)
        : undefined;
  if ('foreign' in reading) {
    const { foreign, isOtherDocument } = reading;
    const certificate = content(reading.certificate ?? { kind: 'none' }, 'client.crt');
    const entries = certificate === undefined ? {} : { [certificateKey]: entryIn(certificate, certificateKey) };
    return { entries, foreign: `${what} is left alone: ${foreign}`, isOtherDocument };
  }
  const strange = credentialsOfOthers(location, parts);
  if (strange !== undefined) return { entries: {}, ...strange };
  const certificate = content(reading.certificate, 'client.pem', 'client.crt');
  const key = content(reading.key, 'client.pem', 'client.key');
  const authority = content(reading.authority, 'ca.crt');
  const entries: Record<string, Uint8Array> = {
    ...(certificate !== undefined && { [certificateKey]: entryIn(certificate, certificateKey) }),
    ...(key !== undefined && { [privateKeyKey]: entryIn(key, privateKeyKey) }),
    ...(authority !== undefined && { [authorityKey]: authority }),
  };
  const damaged = [reading.certificate, reading.key, reading.authority].some(
    (source) => source.kind === 'data' && source.bytes === undefined,
  );
  const problem = damaged ? 'its embedded data is not base64' : reading.conflict;
  return {
    entries,
    authorityIsForeign: reading.authority.kind === 'file' || reading.insecure || undefined,
    server: reading.server,
    problem: problem === undefined ? undefined : `Cannot use ${what}: ${problem}`,
  };
}

interface Renewal {
  readonly location: KubeconfigLocation;
  readonly endpoints: Endpoints;
  readonly view: View;
  readonly next: Entries;
  readonly parts: readonly Part[];
  readonly earlier: () => Promise<readonly Part[] | undefined>;
}

interface NewDocument {
  readonly document: Uint8Array;
  /** Where the new credentials are written. */
  readonly certificate: Source;
  readonly key: Source;
}

/** Made from the first of these sources with a user and a cluster. */
async function newDocument(renewal: Renewal): Promise<NewDocument> {
  const { location, endpoints, parts, view, earlier } = renewal;
  const present = bytesOf(parts, documentRole);
  const sources: readonly (() => Promise<Uint8Array | undefined>)[] = [
    async () => present,
    async () => present && withOwnContext(present, endpoints),
    async () => bytesOf((await earlier()) ?? [], documentRole),
    async () => Buffer.from(bareDocument(renewal)),
  ];
  for (const source of sources) {
    const document = await source();
    if (document === undefined) continue;
    const reading = view(document);
    if ('user' in reading) return edited(renewal, document, reading);
    if ('foreign' in reading && document === present) {
      throw refusal(location, `${reading.foreign}; remove that, or leave this file out`);
    }
  }
  throw refusal(location, 'no document could be made');
}

/** A document that only lacks a current context, but has a suitable one (`kubectl config unset`), keeps its content. */
function withOwnContext(document: Uint8Array, endpoints: Endpoints): Buffer | undefined {
  if (textDamage(document) !== undefined) return undefined; // escaped or decoded, its paths, for example, would differ
  try {
    const edit = editYaml(yamlText(document));
    const name = evidentContextName(edit.value, endpoints);
    if (name === undefined) return undefined;
    edit.set(['current-context'], name);
    return Buffer.from(edit.text());
  } catch (err) {
    if (err instanceof RecoveryError) return undefined; // no YAML: there is nothing to keep
    throw err;
  }
}

/** The document with the new entries where they are embedded; files stay named. */
function edited({ location, next, parts }: Renewal, document: Uint8Array, view: KubeconfigView): NewDocument {
  const before = yamlText(document);
  const edit = editYaml(before);
  const bare = view.certificate.kind === 'none' && view.key.kind === 'none';
  let changed = false;
  const place = (path: readonly (string | number)[], name: string, source: Source, entry: string): Source => {
    const bytes = next[entry];
    if (bytes === undefined) return source;
    if (source.kind === 'file') {
      // A path that leads nowhere is damage where the file itself exists: its directory may not even exist.
      const isLost = parts.some(({ file, bytes: there }) => file === source.file && there === undefined);
      const known = parts.find(({ file, bytes: there }) => file === location.credentials && there !== undefined)?.file;
      if (!isLost || known === undefined) return source;
      edit.set([...path, name], known);
      changed = true;
      return { kind: 'file', file: known };
    }
    if (entry !== authorityKey && bare && location.credentials !== undefined) {
      edit.set([...path, name], location.credentials);
      changed = true;
      return { kind: 'file', file: location.credentials };
    }
    const former = source.kind === 'data' ? source.bytes : undefined;
    const content = entry === certificateKey ? certificateFile(bytes, former) : Buffer.from(bytes);
    if (former?.equals(content) === true) return source;
    edit.set([...path, `${name}-data`], content.toString('base64'));
    changed = true;
    return { kind: 'data', bytes: content };
  };
  const certificate = place(view.user, 'client-certificate', view.certificate, certificateKey);
  const key = place(view.user, 'client-key', view.key, privateKeyKey);
  // Its server can be verified: that is its purpose.
  if (view.conflict !== undefined) {
    edit.remove([...view.cluster, insecureFlag]);
    changed = true;
  }
  if (!view.insecure || view.conflict !== undefined)
    place(view.cluster, 'certificate-authority', view.authority, authorityKey);
  return { document: changed ? Buffer.from(edit.text()) : document, certificate, key };
}

function bareDocument({ location, endpoints, next }: Renewal): string {
  const server = endpoints[location.endpoint];
  if (server === undefined) {
    const where = location.endpoint === 'local' ? "this machine's API server" : 'the control plane';
    throw refusal(
      location,
      `there is none to go by and the address of ${where} is unknown; copy one from another machine`,
    );
  }
  const { [certificateKey]: certificate, [authorityKey]: authority } = next;
  if (certificate === undefined || authority === undefined) {
    throw refusal(location, 'there is none to go by, and certificate and CA are needed to make one');
  }
  const [leaf] = parseCertificates(certificate, locationText(location));
  const user = leaf?.facts.commonName ?? '';
  const name = `${user}@${clusterName}`;
  return toYaml({
    apiVersion: 'v1',
    clusters: [{ cluster: { server }, name: clusterName }],
    contexts: [{ context: { cluster: clusterName, user }, name }],
    'current-context': name,
    kind: 'Config',
    users: [{ name: user }],
  });
}

function fileChanges(next: Entries, parts: readonly Part[], at: { certificate: Source; key: Source }): Change[] {
  const { certificate, key } = at;
  const { [certificateKey]: newCertificate, [privateKeyKey]: newKey } = next;
  if (newCertificate === undefined || newKey === undefined) return [];
  const formerOf = (file: string): Uint8Array | undefined => parts.find((part) => part.file === file)?.bytes;
  const one = certificate.kind === 'file' && key.kind === 'file' && certificate.file === key.file;
  const changes: Change[] = [];
  if (key.kind === 'file' && !one) {
    const former = formerOf(key.file);
    changes.push(credentialChange(key.file, holdsCertificate(former) ? putTogether(next, former) : newKey));
  }
  if (certificate.kind === 'file') {
    const former = formerOf(certificate.file);
    const both = one || holdsKey(former);
    changes.push(
      credentialChange(certificate.file, both ? putTogether(next, former) : certificateFile(newCertificate, former)),
    );
  }
  // Unchanged credentials are not replaced.
  return changes.filter(
    ({ file, bytes }) => formerOf(file) === undefined || !Buffer.from(bytes).equals(formerOf(file) ?? bytes),
  );
}

/** `isForKey`: a torn key does not parse, and is as secret. */
function credentialChange(file: string, bytes: Uint8Array, isForKey = false): Change {
  const secret = isForKey || holdsKey(bytes);
  return { file, bytes, mode: secret ? 0o600 : 0o644, secret, dated: secret && holdsCertificate(bytes) };
}

function documentChange(file: string, bytes: Uint8Array): Change {
  return { file, bytes, mode: 0o600, secret: Buffer.from(bytes).includes('client-key-data') };
}

function refusal(location: KubeconfigLocation, problem: string): RecoveryError {
  return new RecoveryError('WriteFailed', `Cannot write ${locationText(location)}: ${problem}`);
}
