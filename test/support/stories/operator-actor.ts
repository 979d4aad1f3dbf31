// The second writer on an OpenShift cluster: what its three operators do to certificates, by the rules that they publish
// (openshift/library-go pkg/operator/certrotation, pkg/operator/resourcesynccontroller; cluster-kube-apiserver-operator
// and cluster-kube-controller-manager-operator, pkg/operator/targetconfigcontroller and nodekubeconfigcontroller). It
// shares no decision with lib/plan: it goes by annotations and never by a certificate's own dates, compares bundles as
// text, and gives a sync up at the first conflict. Only parsing and signing are those of lib/pki.
import type { Location } from '../../../lib/inventory/model.ts';
import { type Authority, readAuthority } from '../../../lib/issue/ingredients.ts';
import { type Certificate, parseCertificates } from '../../../lib/pki/certificate.ts';
import { canonicalHostnames } from '../../../lib/pki/names.ts';
import type { KeyPool } from '../../../lib/pki/key-pool.ts';
import { signLeaf, signSigner } from '../../../lib/pki/sign.ts';
import {
  type Entries,
  type Found,
  locationText,
  type Material,
  type Seen,
  type Store,
} from '../../../lib/store/store.ts';
import { algorithm, pick, type Random } from '../faults/interleaving.ts';
import * as cluster from '../cluster/openshift-objects.ts';

const day = 24 * 3_600_000;
const trustSpreadsMs = 5 * 60_000;
const about = {
  notBefore: 'auth.openshift.io/certificate-not-before',
  notAfter: 'auth.openshift.io/certificate-not-after',
  issuer: 'auth.openshift.io/certificate-issuer',
  hostnames: 'auth.openshift.io/certificate-hostnames',
  component: 'openshift.io/owning-component',
  description: 'openshift.io/description',
  refresh: 'certificates.openshift.io/refresh-period',
} as const;
const typeLabel = 'auth.openshift.io/managed-certificate-type';

type Texts = Readonly<Record<string, string>>;

/** Objects as the API server keeps them: compare-and-swap, and what a write does not name stays. */
export class ObjectStore implements Store {
  readonly #objects = new Map<string, Found>();
  #versions = 0;

  /** How many writes there have been. */
  get changes(): number {
    return this.#versions;
  }

  peek(location: Location): Found | undefined {
    return this.#objects.get(locationText(location));
  }

  /** Not guarded: what another writer does. */
  put(location: Location, material: Material | undefined): void {
    this.#versions += 1;
    if (material === undefined) this.#objects.delete(locationText(location));
    else this.#objects.set(locationText(location), { ...material, version: `${this.#versions}` });
  }

  read(location: Location): Promise<Found | undefined> {
    return Promise.resolve(this.peek(location));
  }

  write(location: Location, next: Material, seen: Seen): Promise<'written' | 'conflict'> {
    const there = this.peek(location);
    if (there?.version !== (seen === 'absent' ? undefined : seen.version)) return Promise.resolve('conflict');
    this.put(location, {
      entries: { ...there?.entries, ...next.entries },
      annotations: { ...next.metadata?.annotations, ...there?.annotations, ...next.annotations },
      labels: { ...next.metadata?.labels, ...there?.labels, ...next.labels },
    });
    return Promise.resolve('written');
  }
}

export const secret = (object: string): Location => at('secret', object);
export const configMap = (object: string): Location => at('configMap', object);

function at(kind: 'secret' | 'configMap', object: string): Location {
  const [namespace = '', name = ''] = object.split('/');
  return { kind, namespace, name };
}

export interface OperatorOptions {
  readonly store: Store;
  readonly now: () => Date;
  readonly keys: KeyPool;
  readonly random: Random;
  /** Rules that are broken on purpose, to see that the tests notice. */
  readonly broken?: ReadonlySet<'unsortedBundles' | 'earlyRenewal' | 'metadataAlways'>;
}

/** One write that a controller is about to make; others may act before it. */
type Steps<T = void> = AsyncGenerator<string, T, undefined>;

interface Lives {
  readonly object: string;
  readonly days: number;
  readonly refreshDays: number;
}

const lives = new Map<string, Lives>(
  cluster.signers.map(([object, days, refreshDays]) => [object, { object, days, refreshDays }]),
);

function livesOf(signer: string): Lives {
  const found = lives.get(signer);
  if (found === undefined) throw new Error(`no signer ${signer}`);
  return found;
}

export class OperatorActor {
  readonly #options: OperatorOptions;

  constructor(options: OperatorOptions) {
    this.#options = options;
  }

  /** Every controller once, side by side, each step of any of them when chance wants it. Yields before each write. */
  async *round(): Steps {
    const { random } = this.#options;
    const running = this.#controllers();
    while (running.length > 0) {
      const one = pick(random, running);
      const { done, value } = await one.next();
      if (done === true) running.splice(running.indexOf(one), 1);
      else yield value;
    }
  }

  #controllers(): Steps[] {
    const history = cluster.csrSigner.object;
    const bundleOf = new Map(cluster.bundles.map(([bundle, signer]) => [signer, bundle]));
    const bundle = (signer: string): string => bundleOf.get(signer) ?? '';
    return [
      ...cluster.leaves.map((leaf) => this.#rotation(leaf.signer, bundle(leaf.signer), (ca) => this.#leaf(leaf, ca))),
      this.#rotation(cluster.csrSigner.signer, bundle(cluster.csrSigner.signer), (ca) => this.#csrSigner(ca)),
      this.#history(history, bundle(history)),
      ...cluster.composed.map(([object, inputs]) => this.#composed(object, inputs)),
      ...cluster.copies.map(([object, of]) => this.#copy(configMap(object), configMap(of))),
      ...cluster.pairCopies
        .filter(([, of]) => of !== history)
        .map(([object, of]) => this.#copy(secret(object), secret(of))),
      ...cluster.pairCopies.filter(([, of]) => of === history).map(([object, of]) => this.#promotion(object, of)),
      this.#nodeKubeconfigs(),
    ];
  }

  /** Signer, bundle, target: each only where the one before has a value. */
  async *#rotation(
    signer: string,
    bundle: string,
    target: (ca: { authority: Authority; trusted: readonly Certificate[] }) => Steps,
  ): Steps {
    const authority = yield* this.#signer(livesOf(signer));
    if (authority === undefined) return;
    const trusted = yield* this.#bundle(bundle, authority.certificate);
    if (trusted === undefined) return;
    yield* target({ authority, trusted });
  }

  async *#signer({ object, days, refreshDays }: Lives): Steps<Authority | undefined> {
    const { now, keys } = this.#options;
    const place = secret(object);
    let found = yield* this.#described(place, { type: 'signer', refreshDays });
    if (found === 'conflict') return undefined;
    if (found === undefined || this.#isDue(found.annotations, refreshDays) !== 'no') {
      const key = await keys.take(algorithm);
      const made = now();
      const [namespace = '', name = ''] = object.split('/');
      const commonName = `${namespace}_${name}@${Math.floor(made.getTime() / 1000)}`;
      const dates = { notBefore: earlier(made), notAfter: new Date(made.getTime() + days * day), now: made };
      const { pem } = await signSigner({ commonName, key: key.key, ...dates });
      const entries = { 'tls.crt': Buffer.from(pem), 'tls.key': Buffer.from(key.pem) };
      found = yield* this.#write(place, entries, { type: 'signer', refreshDays }, found);
    }
    return found === undefined ? undefined : readAuthority(place, found.entries);
  }

  /** The signer and what was there, without what has expired, each once, in the order of their bytes. */
  async *#bundle(object: string, signer: Certificate): Steps<readonly Certificate[] | undefined> {
    const place = configMap(object);
    let found = yield* this.#described(place, { type: 'ca-bundle' });
    if (found === 'conflict') return undefined;
    const merged = this.#living([signer, ...held(found)]);
    if (this.#options.broken?.has('unsortedBundles') !== true) {
      merged.sort((a, b) => Buffer.compare(a.x509.raw, b.x509.raw));
    }
    if (text(found) !== pemOf(merged)) {
      found = yield* this.#write(place, { 'ca-bundle.crt': Buffer.from(pemOf(merged)) }, { type: 'ca-bundle' }, found);
    }
    return found === undefined ? undefined : held(found);
  }

  async *#leaf(leaf: (typeof cluster.leaves)[number], ca: { authority: Authority; trusted: readonly Certificate[] }) {
    const { authority } = ca;
    const place = secret(leaf.object);
    const kind = { type: 'target', refreshDays: leaf.refreshDays };
    const found = yield* this.#described(place, kind);
    if (found === 'conflict') return;
    const names = leaf.sans?.map((san) => san.replace(/^(DNS|IP Address):/, '')) ?? [];
    const hostnames = names.length === 0 ? [] : canonicalHostnames(names);
    const isAsWanted =
      found !== undefined &&
      !this.#mustRenew(found.annotations, leaf.refreshDays, ca) &&
      (hostnames.length === 0 || sameSet(found.annotations[about.hostnames]?.split(',') ?? [], hostnames));
    if (isAsWanted) return;
    const { now, keys } = this.#options;
    const key = await keys.take(algorithm);
    const of = (attribute: string): string[] =>
      leaf.subject
        .split('\n')
        .flatMap((rdn) => (rdn.startsWith(`${attribute}=`) ? [rdn.slice(attribute.length + 1)] : []));
    const { pem } = await signLeaf({
      issuer: authority,
      key: key.key,
      commonName: of('CN')[0] ?? '',
      organizations: of('O'),
      hostnames,
      usage: hostnames.length > 0 ? 'serving' : 'client',
      ...this.#cappedDates(leaf.days, authority, now()),
    });
    const chain = hostnames.length > 0 ? authority.certificate.pem : '';
    const entries = { 'tls.crt': Buffer.from(pem + chain), 'tls.key': Buffer.from(key.pem) };
    yield* this.#write(place, entries, kind, found);
  }

  /** An intermediate CA: to the rotation it is a target like others. */
  async *#csrSigner(ca: { authority: Authority; trusted: readonly Certificate[] }): Steps {
    const { object, days, refreshDays } = cluster.csrSigner;
    const place = secret(object);
    const kind = { type: 'target', refreshDays };
    const found = yield* this.#described(place, kind);
    if (found === 'conflict') return;
    if (found !== undefined && !this.#mustRenew(found.annotations, refreshDays, ca)) return;
    const { now, keys } = this.#options;
    const key = await keys.take(algorithm);
    const made = now();
    const { pem } = await signSigner({
      commonName: `kube-csr-signer_@${Math.floor(made.getTime() / 1000)}`,
      key: key.key,
      issuer: ca.authority,
      ...this.#cappedDates(days, ca.authority, made),
    });
    yield* this.#write(place, { 'tls.crt': Buffer.from(pem), 'tls.key': Buffer.from(key.pem) }, kind, found);
  }

  /** Every csr-signer that was ever seen and has not expired, in the order of their coming. */
  async *#history(signer: string, object: string): Steps {
    const { store } = this.#options;
    const current = await store.read(secret(signer), never);
    if (current === undefined) return;
    const place = configMap(object);
    const found = await store.read(place, never);
    const [first] = leafs(current);
    const all = pemOf(this.#living([...held(found), ...(first === undefined ? [] : [first])]));
    if (text(found) !== all) yield* this.#write(place, { 'ca-bundle.crt': Buffer.from(all) }, {}, found);
  }

  /** The certificates of its inputs in their order, each once; an absent input is skipped. */
  async *#composed(object: string, inputs: readonly string[]): Steps {
    const { store } = this.#options;
    const place = configMap(object);
    const found = await store.read(place, never);
    const parts: Certificate[] = [];
    for (const input of inputs) parts.push(...held(await store.read(configMap(input), never)));
    const all = pemOf(this.#living(parts));
    if (all !== '' && text(found) !== all) yield* this.#write(place, { 'ca-bundle.crt': Buffer.from(all) }, {}, found);
  }

  /** Data, annotations and labels of the source; what the copy has besides stays. */
  async *#copy(place: Location, of: Location): Steps {
    const { store } = this.#options;
    const source = await store.read(of, never);
    if (source === undefined) return;
    const found = await store.read(place, never);
    const { entries, annotations, labels = {} } = source;
    const isSame =
      found !== undefined &&
      Object.entries(entries).every(([key, value]) => Buffer.from(value).equals(found.entries[key] ?? Buffer.of())) &&
      within(annotations, found.annotations) &&
      within(labels, found.labels ?? {});
    if (isSame) return;
    yield locationText(place);
    await store.write(place, { entries, annotations, labels }, seenOf(found), never);
  }

  /** Five minutes after its beginning, or at once where what is in use is gone or has ended. */
  async *#promotion(object: string, of: string): Steps {
    const { store, now } = this.#options;
    const source = await store.read(secret(of), never);
    const [next] = leafs(source);
    if (source === undefined || next === undefined) return;
    const found = await store.read(secret(object), never);
    const [used] = leafs(found);
    const isOver = used === undefined || used.facts.notAfter < now();
    if (!isOver && now().getTime() <= next.facts.notBefore.getTime() + trustSpreadsMs) return;
    if (used?.facts.fingerprint === next.facts.fingerprint) return;
    const { 'tls.key': key = Buffer.of() } = source.entries;
    yield locationText(secret(object));
    await store.write(
      secret(object),
      { entries: { 'tls.crt': Buffer.from(next.pem), 'tls.key': key }, annotations: {} },
      seenOf(found),
      never,
    );
  }

  async *#nodeKubeconfigs(): Steps {
    const { store } = this.#options;
    const client = await store.read(secret('openshift-kube-apiserver-operator/node-system-admin-client'), never);
    const ca = text(await store.read(configMap('openshift-kube-apiserver/kube-apiserver-server-ca'), never));
    if (client === undefined || ca === '') return;
    const place = secret('openshift-kube-apiserver/node-kubeconfigs');
    const found = await store.read(place, never);
    const entries = Object.fromEntries(
      Object.entries(cluster.nodeKubeconfigs).map(([key, [server, tlsServerName]]) => {
        const name = key.replace('.kubeconfig', '');
        return [key, Buffer.from(kubeconfig({ name, server, tlsServerName, ca, client: client.entries }))];
      }),
    );
    const isSame = Object.entries(entries).every(([key, value]) => value.equals(found?.entries[key] ?? Buffer.of()));
    if (isSame) return;
    yield locationText(place);
    await store.write(place, { entries, annotations: {} }, seenOf(found), never);
  }

  /** By the annotations: a missing or odd date, the end, four fifths of the life, the refresh time. */
  #isDue(annotations: Texts, refreshDays: number): 'no' | 'atOnce' | 'refresh' {
    const from = Date.parse(annotations[about.notBefore] ?? '');
    const to = Date.parse(annotations[about.notAfter] ?? '');
    const now = this.#options.now().getTime();
    if (Number.isNaN(from) || Number.isNaN(to) || now > to || now > to - (to - from) / 5) return 'atOnce';
    const share = this.#options.broken?.has('earlyRenewal') === true ? 0.5 : 1;
    return now > from + refreshDays * day * share ? 'refresh' : 'no';
  }

  #mustRenew(annotations: Texts, refreshDays: number, ca: { authority: Authority; trusted: readonly Certificate[] }) {
    const due = this.#isDue(annotations, refreshDays);
    const spread = ca.authority.certificate.facts.notBefore.getTime() + (refreshDays * day) / 10;
    if (due === 'atOnce' || (due === 'refresh' && this.#options.now().getTime() > spread)) return true;
    return !ca.trusted.some(({ facts }) => facts.commonName === annotations[about.issuer]);
  }

  #cappedDates(days: number, { certificate }: Authority, now: Date) {
    const end = Math.min(now.getTime() + days * day, certificate.facts.notAfter.getTime());
    return { notBefore: earlier(now), notAfter: new Date(end), now };
  }

  #living(certificates: readonly Certificate[]): Certificate[] {
    const now = this.#options.now();
    const all = certificates.filter(({ facts }) => facts.notAfter >= now);
    return [...new Map(all.map((one) => [one.facts.fingerprint, one])).values()];
  }

  /** What the registry is told of an object is put right first, in a write of its own. */
  async *#described(place: Location, kind: About): Steps<Found | 'conflict' | undefined> {
    const { store, broken } = this.#options;
    const found = await store.read(place, never);
    if (found === undefined) return undefined;
    const wanted = registered(place, kind);
    if (within(wanted, found.annotations) && broken?.has('metadataAlways') !== true) return found;
    yield locationText(place);
    const outcome = await store.write(place, { entries: {}, annotations: wanted }, seenOf(found), never);
    return outcome === 'conflict' ? outcome : store.read(place, never);
  }

  async *#write(place: Location, entries: Entries, kind: About, found: Found | undefined): Steps<Found | undefined> {
    const { store } = this.#options;
    yield locationText(place);
    const [first] = entries['tls.crt'] === undefined ? [] : parseCertificates(entries['tls.crt'], locationText(place));
    const annotations = { ...registered(place, kind), ...(first !== undefined && dated(first)) };
    const labels = kind.type === undefined ? {} : { [typeLabel]: kind.type };
    const outcome = await store.write(place, { entries, annotations, labels }, seenOf(found), never);
    return outcome === 'conflict' ? undefined : store.read(place, never);
  }
}

interface About {
  readonly type?: string;
  readonly refreshDays?: number;
}

const never = new AbortController().signal;
const seenOf = (found: Found | undefined): Seen => (found === undefined ? 'absent' : { version: found.version });
/** A certificate begins a second before it is made. */
const earlier = (date: Date): Date => new Date(date.getTime() - 1000);
const rfc3339 = (date: Date): string => date.toISOString().replace(/\.\d+Z$/, 'Z');
const pemOf = (certificates: readonly Certificate[]): string => certificates.map(({ pem }) => pem).join('');
const sameSet = (a: readonly string[], b: readonly string[]): boolean =>
  JSON.stringify(a.toSorted()) === JSON.stringify(b.toSorted());
const within = (wanted: Texts, there: Texts): boolean =>
  Object.entries(wanted).every(([key, value]) => there[key] === value);
const text = (found: Found | undefined): string => Buffer.from(found?.entries['ca-bundle.crt'] ?? []).toString();

/** Whose it is; of what has a type also what it is for. */
function registered(place: Location, { type, refreshDays }: About): Texts {
  const { namespace } = place as Extract<Location, { kind: 'secret' }>;
  const isOfManager = namespace.startsWith('openshift-kube-controller-manager');
  const owner = isOfManager ? 'kube-controller-manager' : 'kube-apiserver';
  if (type === undefined) return { [about.component]: owner };
  return {
    [about.component]: owner,
    [about.description]: `What the operator says of ${locationText(place)}`,
    ...(refreshDays !== undefined && { [about.refresh]: `${refreshDays * 24}h0m0s` }),
  };
}

function dated({ facts, fields }: Certificate): Texts {
  return {
    [about.notBefore]: rfc3339(facts.notBefore),
    [about.notAfter]: rfc3339(facts.notAfter),
    [about.issuer]: fields.issuer.commonName,
    ...(facts.hostnames.length > 0 && { [about.hostnames]: facts.hostnames.toSorted().join(',') }),
  };
}

const parsed = new WeakMap<Uint8Array, readonly Certificate[]>();

function parse(bytes: Uint8Array | undefined): readonly Certificate[] {
  if (bytes === undefined || bytes.length === 0) return [];
  const known = parsed.get(bytes) ?? parseCertificates(bytes, 'an object');
  parsed.set(bytes, known);
  return known;
}

export const held = (found: Found | undefined): readonly Certificate[] => parse(found?.entries['ca-bundle.crt']);
export const leafs = (found: Found | undefined): readonly Certificate[] => parse(found?.entries['tls.crt']);

interface NodeKubeconfig {
  readonly name: string;
  readonly server: string;
  readonly tlsServerName: string | undefined;
  readonly ca: string;
  readonly client: Entries;
}

function kubeconfig({ name, server, tlsServerName, ca, client }: NodeKubeconfig): string {
  const base64 = (bytes: Uint8Array | string | undefined): string => Buffer.from(bytes ?? '').toString('base64');
  const user = 'system:admin';
  return [
    'apiVersion: v1',
    'kind: Config',
    'clusters:',
    '- cluster:',
    `    certificate-authority-data: ${base64(ca)}`,
    `    server: ${server}`,
    ...(tlsServerName === undefined ? [] : [`    tls-server-name: ${tlsServerName}`]),
    `  name: ${name}`,
    'contexts:',
    '- context:',
    `    cluster: ${name}`,
    `    user: ${user}`,
    `  name: ${user}`,
    `current-context: ${user}`,
    'users:',
    `- name: ${user}`,
    '  user:',
    `    client-certificate-data: ${base64(client['tls.crt'])}`,
    `    client-key-data: ${base64(client['tls.key'])}`,
    '',
  ].join('\n');
}
