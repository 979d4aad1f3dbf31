// Facts about the trust of a machine: what its components are told, and the content of the files that this names. Every
// look-up gives its value, or why there is none. Pure.
import type { KeyObject } from 'node:crypto';
import type { ComponentName } from '../components.ts';
import type { KubeconfigReading, KubeconfigView, Source } from '../kubeconfig/document.ts';
import { hostPlaceOf } from '../inventory/discover/component-settings.ts';
import type { SettingsHere } from '../inventory/discover/named-files.ts';
import { fileFlags, flagName, type FlagOf } from '../inventory/file-flags.ts';
import { type Certificate, parseCertificates } from '../pki/certificate.ts';
import { parsePrivateKey } from '../pki/key.ts';
import { valueOrProblem } from '../pki/pem.ts';
import type { bundleKinds, Relation } from './relations.ts';

/** `unread`: why, as the last part of a sentence. */
export type FileHere =
  { readonly bytes: Uint8Array; readonly unread?: never } | { readonly unread: string; readonly bytes?: never };

export interface KubeconfigHere {
  /** The flag that names it, else its file name. */
  readonly name: string;
  readonly file: string;
  /** Undefined where the file cannot be read. */
  readonly reading: KubeconfigReading | undefined;
}

export interface TrustFacts {
  readonly settings: SettingsHere;
  /** Why the flags of a component are not known, as a sentence. */
  readonly doubts: Readonly<Partial<Record<ComponentName, string>>>;
  readonly kubeconfigs: readonly KubeconfigHere[];
  /**
   * Content by path on this machine; of entries of ConfigMaps by their text (publishedText), of caBundles and of what
   * servers show by their names.
   */
  readonly files: ReadonlyMap<string, FileHere>;
  /** Place on this machine of a path that a flag names. */
  readonly moved: (path: string) => string;
  /** Addresses of this machine. */
  readonly own: readonly string[];
  /** Fingerprints of CAs that are taken out of every trust. */
  readonly without: ReadonlySet<string>;
  /** Only where the API was asked. */
  readonly servers: readonly ServerMet[];
  /** Only where the API was asked. */
  readonly bundles: readonly BundleOfServer[];
}

/** A caBundle by which kube-apiserver verifies a server of others. */
export interface BundleOfServer {
  readonly id: keyof typeof bundleKinds;
  /** `APIService "v1.example.com" caBundle`; `files` has the content by it. */
  readonly name: string;
  /** The server that is verified: `Service "a/b"`, or the address in a URL. */
  readonly server: string;
  readonly hostname: string;
  /** Why there is nothing to judge. */
  readonly none?: string | undefined;
}

/** A server that was met at its address; `files` has the certificates that it showed. */
export interface ServerMet {
  /** R3 of kubelets, R8 of API servers. */
  readonly id: Relation['id'];
  /** `kubelet of Node "a" at 192.0.2.10:10250`. */
  readonly name: string;
  /** Name or address by which its clients know it. */
  readonly hostname: string;
}

export type TrustVerdict = 'holds' | 'fails' | 'unknown' | 'notApplicable';

/** `reason`: a sentence without a full stop; empty where it holds. */
export interface TrustJudgement {
  readonly verdict: TrustVerdict;
  readonly reason: string;
}

export const held: TrustJudgement = { verdict: 'holds', reason: '' };
export const fails = (reason: string): TrustJudgement => ({ verdict: 'fails', reason });
export const unknown = (reason: string): TrustJudgement => ({ verdict: 'unknown', reason });
export const notApplicable = (reason: string): TrustJudgement => ({ verdict: 'notApplicable', reason });

export type Sought<T> =
  { readonly value: T; readonly lack?: never } | { readonly lack: TrustJudgement; readonly value?: never };

/** One side of a relation. */
export interface Side {
  /** `etcd --cert-file`, for people. */
  readonly name: string;
  readonly file?: string | undefined;
}

interface NamedFile extends Side {
  readonly file: string;
}

/** Returns values of a flag that count: the last one, except for flags that make a list (pflag). */
export function valuesOf({ settings }: Pick<TrustFacts, 'settings'>, { component, flag }: FlagOf): readonly string[] {
  const all = settings[component]?.values.get(flag) ?? [];
  const role = fileFlags[component][flag];
  const isList = role === undefined || (role.holds === 'tokenKey' && role.knownBy === undefined);
  // An empty value means none, also behind another one.
  return (isList ? all : all.slice(-1)).filter((value) => value !== '');
}

/** Whether a component runs on another machine, if anywhere. */
export const isElsewhere = ({ settings, doubts }: TrustFacts, component: ComponentName): boolean =>
  settings[component] === undefined && doubts[component] === undefined;

/** Returns the files that a flag names. */
export function filesNamed(facts: TrustFacts, flag: FlagOf): Sought<readonly NamedFile[]> {
  const { component } = flag;
  const { [component]: doubt } = facts.doubts;
  if (doubt !== undefined) return { lack: unknown(doubt) };
  const here = facts.settings[component];
  if (here === undefined) return { lack: notApplicable(`${component} does not run on this machine`) };
  const values = valuesOf(facts, flag);
  if (values.length === 0) return { lack: notApplicable(`${component} has no --${flag.flag}`) };
  const files: NamedFile[] = [];
  for (const value of values) {
    const place = hostPlaceOf(value, here);
    if (place?.path === undefined) return { lack: unknown(`"${value}" ${place?.unknown ?? 'names no file'}`) };
    files.push({ name: flagName(flag), file: facts.moved(place.path) });
  }
  return { value: files };
}

/** Returns the file that a flag names. */
export function fileNamed(facts: TrustFacts, flag: FlagOf): Sought<NamedFile> {
  const { value, lack } = filesNamed(facts, flag);
  const last = value?.at(-1);
  return last === undefined ? { lack: lack ?? notApplicable(`${flagName(flag)} is not set`) } : { value: last };
}

/** A path in quotes; the text of an entry has its own. */
const quoted = (file: string): string => (file.includes('"') ? file : `"${file}"`);

function bytesIn({ files }: TrustFacts, file: string): Sought<Uint8Array> {
  const { bytes, unread = 'is not read' } = files.get(file) ?? {};
  return bytes === undefined ? { lack: unknown(`${quoted(file)} ${unread}`) } : { value: bytes };
}

/** Content that a component refuses breaks the relation; content that cannot be read here may be sound. */
function parsed<T>(bytes: Sought<Uint8Array>, parse: (bytes: Uint8Array) => T): Sought<T> {
  if (bytes.value === undefined) return bytes;
  const { value: content } = bytes;
  const { value, problem } = valueOrProblem(() => parse(content));
  return problem === undefined ? { value } : { lack: fails(problem) };
}

export type Chain = readonly [Certificate, ...Certificate[]];

const asCertificates = (bytes: Uint8Array, file: string): Chain =>
  parseCertificates(bytes, quoted(file), 'skipped') as unknown as Chain; // at least one

/** Applies `parse` to the content of a file; it may throw MaterialInvalid. */
export const contentAt = <T>(facts: TrustFacts, file: string, parse: (bytes: Uint8Array) => T): Sought<T> =>
  parsed(bytesIn(facts, file), parse);

/** Returns certificates of a file in their order. */
export const certificatesAt = (facts: TrustFacts, file: string): Sought<Chain> =>
  contentAt(facts, file, (bytes) => asCertificates(bytes, file));

export const keyAt = (facts: TrustFacts, file: string): Sought<KeyObject> =>
  contentAt(facts, file, (bytes) => parsePrivateKey(bytes, `"${file}"`));

/** Returns certificates that a kubeconfig holds or names. */
export function certificatesOfSource(facts: TrustFacts, source: Source, file: string): Sought<Chain> {
  if (source.kind === 'file') return certificatesAt(facts, source.file);
  if (source.kind === 'none') return { lack: notApplicable(`"${file}" has none`) };
  if (source.bytes === undefined) return { lack: fails(`"${file}" holds data that is not base64`) };
  return parsed({ value: source.bytes }, (bytes) => asCertificates(bytes, file));
}

export function keyOfSource(facts: TrustFacts, source: Source, file: string): Sought<KeyObject> {
  if (source.kind === 'file') return keyAt(facts, source.file);
  if (source.kind === 'none') return { lack: notApplicable(`"${file}" has no key`) };
  if (source.bytes === undefined) return { lack: fails(`"${file}" holds data that is not base64`) };
  return parsed({ value: source.bytes }, (bytes) => parsePrivateKey(bytes, `"${file}"`));
}

export function viewOf(facts: TrustFacts, { file, reading }: KubeconfigHere): Sought<KubeconfigView> {
  if (reading === undefined) return { lack: unknown(`"${file}" ${facts.files.get(file)?.unread ?? 'is not read'}`) };
  if ('problem' in reading) return { lack: fails(`no component can load "${file}": ${reading.problem}`) };
  if (!('foreign' in reading)) return { value: reading };
  const reason = `"${file}": ${reading.foreign}`;
  return { lack: reading.isOtherDocument === true ? fails(reason) : notApplicable(reason) };
}

/** Returns the CAs of a trust without those that are taken out. */
export function trusted({ without }: TrustFacts, { value, lack }: Sought<Chain>): Sought<readonly Certificate[]> {
  return value === undefined
    ? { lack }
    : { value: without.size === 0 ? value : value.filter(({ facts }) => !without.has(facts.fingerprint)) };
}
