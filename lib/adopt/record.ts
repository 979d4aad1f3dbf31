// Record that `init adopt` leaves for `init adopt --repair`: all additions to the three manifests, so that they can be
// restored without an administrator and without an API. Each pod is recorded as soon as it runs with its addition, so
// the record never names an image that did not run, and an interrupted adoption keeps its progress. `uninstall adopt`
// removes the record first. It holds paths and names, no secrets.
import { createHash } from 'node:crypto';
import { isAbsolute } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { replaceFile } from '../disk/files.ts';
import { RecoveryError } from '../errors.ts';
import { type StaticPod, staticPods } from '../components.ts';
import { isThere, readIfPresent, removeFile } from '../install/existing-files.ts';
import { adoptionFile } from '../install/layout.ts';
import { podLayout } from './pod-files.ts';
import { digestOf, type PodAddition } from './static-pods.ts';
import { apiVersion } from '../well-known.ts';
import { isMapping } from '../yaml.ts';

export interface AdoptionRecord {
  readonly kubernetesDir: string;
  readonly pkiDir: string;
  readonly nodeName: string;
  /** One for each adopted static pod, in their order; an interrupted adoption leaves some out. */
  readonly additions: readonly PodAddition[];
}

const header = { apiVersion, kind: 'Adoption' } as const;
const additionFields = ['pod', 'image', 'layout', 'flags', 'kubeletPki', 'sharesProcesses', 'seLinux'];

export function recordText(record: AdoptionRecord): string {
  const { kubernetesDir, pkiDir, nodeName, additions } = record;
  // Digests reveal an edited record, and a record of a version that adds other things.
  const digests = Object.fromEntries(additions.map((addition) => [addition.pod, digestOf(addition)]));
  const placeDigest = placeDigestOf(record);
  const value = { ...header, kubernetesDir, pkiDir, nodeName, additions, digests, placeDigest };
  return `${JSON.stringify(value, undefined, 2)}\n`;
}

/** Throws MaterialInvalid for a record that this version would not have written. */
export function parseRecord(text: string, directory: string): AdoptionRecord {
  const problem = (what: string): RecoveryError => {
    const again = 'run init adopt with its --image again, which rewrites it';
    return new RecoveryError('MaterialInvalid', `Cannot use record "${adoptionFile(directory)}": ${what}; ${again}`);
  };
  const value = fieldsOf(jsonOf(text));
  if (value === undefined) throw problem('it is no JSON object');
  const { apiVersion: version, kind, kubernetesDir, pkiDir, nodeName, additions, ...rest } = value;
  if (version !== header.apiVersion || kind !== header.kind) {
    throw problem(`it is not of version "${header.apiVersion}" and kind "${header.kind}"`);
  }
  const { digests: noted, placeDigest: place, ...more } = rest;
  const [unknown] = Object.keys(more);
  if (unknown !== undefined) throw problem(`field "${unknown}" is unknown`);
  if (!isPath(kubernetesDir) || !isPath(pkiDir)) throw problem('a directory is no absolute path');
  if (!isName(nodeName) || nodeName.includes('/')) throw problem('it has no nodeName');
  const all = Array.isArray(additions) ? (additions as readonly unknown[]) : [];
  const pods = staticPods.filter((pod) => all.some((one) => fieldsOf(one)?.['pod'] === pod));
  if (all.length === 0 || all.length !== pods.length) throw problem('it does not name static pods, each once');
  const digests = fieldsOf(noted) ?? {};
  if (!isDeepStrictEqual(new Set(Object.keys(digests)), new Set(pods)))
    throw problem('it names other pods than its digests');
  const read = pods.map((pod, at) => {
    const addition = all[at] as PodAddition;
    const isEdited = digestOf(addition) !== digests[pod];
    const wrong =
      additionProblem(addition, pod, directory) ??
      (isEdited ? 'has been edited, or is of another version of this program' : undefined);
    if (wrong !== undefined) throw problem(`what is added to ${pod} ${wrong}`);
    return addition;
  });
  // Older versions wrote no such digest.
  if (place !== undefined && place !== placeDigestOf({ kubernetesDir, pkiDir, nodeName })) {
    throw problem('its directories or its nodeName have been edited');
  }
  return { kubernetesDir, pkiDir, nodeName, additions: read };
}

/** Digest of the fields outside the additions: one flipped bit would name another node. */
const placeDigestOf = ({ kubernetesDir, pkiDir, nodeName }: Omit<AdoptionRecord, 'additions'>): string =>
  createHash('sha256')
    .update(JSON.stringify([kubernetesDir, pkiDir, nodeName]))
    .digest('hex')
    .slice(0, 16);

/** Undefined when this machine has not been adopted. Throws ReadFailed, MaterialInvalid. */
export async function readRecord(directory: string): Promise<AdoptionRecord | undefined> {
  const bytes = await readIfPresent(adoptionFile(directory), 'record');
  return bytes === undefined ? undefined : parseRecord(bytes.toString('utf8'), directory);
}

/** Throws WriteFailed. */
export async function writeRecord(directory: string, record: AdoptionRecord): Promise<void> {
  const file = { path: adoptionFile(directory), content: recordText(record), mode: 0o644, what: 'record' };
  await replaceFile(file);
}

/** Removes durably; an absent record is accepted. Throws WriteFailed. */
export async function removeRecord(directory: string): Promise<void> {
  const path = adoptionFile(directory);
  if (await isThere(path, 'record')) await removeFile(path, 'record');
}

/** Reason why a value is not an addition of this version; undefined: it is one. */
function additionProblem(value: unknown, pod: StaticPod, directory: string): string | undefined {
  const { pod: named, image, layout, flags, kubeletPki, sharesProcesses, seLinux, ...rest } = fieldsOf(value) ?? {};
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) return `has an unknown field "${unknown}" (known: ${additionFields.join(', ')})`;
  if (named !== pod) return 'is that of another pod';
  if (!isName(image)) return 'has no image';
  if (!isDeepStrictEqual(layout, podLayout(directory, pod))) return `has files elsewhere than below "${directory}"`;
  if (kubeletPki !== undefined && !isPath(kubeletPki)) return 'has a kubeletPki that is no absolute path';
  if (typeof sharesProcesses !== 'boolean') return 'does not say whether processes are shared';
  const { type = 'no label', level = 's0', ...more } = fieldsOf(seLinux ?? {}) ?? { more: seLinux };
  if (![type, level].every(isName) || Object.keys(more).length > 0) return 'has a seLinux that is no label';
  const values = Object.values(fieldsOf(flags) ?? {}).flat();
  return values.length > 0 && values.every(isName) ? undefined : 'has no flags';
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

const fieldsOf = (value: unknown): Readonly<Record<string, unknown>> | undefined =>
  isMapping(value) ? value : undefined;

const isName = (value: unknown): value is string => typeof value === 'string' && value !== '';
const isPath = (value: unknown): value is string => isName(value) && isAbsolute(value);
