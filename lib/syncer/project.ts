// Decides on the files of one object. Pure: the API's content, the files on disk and the time are arguments. Working
// files are never replaced by worse content: broken, mismatched, incomplete, expired or not yet valid content from the
// API is never written over files that are valid; these stay.
import type { CertificateFacts } from '../pki/certificate.ts';
import { mostNames, namesProblem } from '../publish/file-names.ts';
import type { PublishOutcome } from '../publish/writer.ts';
import { keysOf, certificateKey, privateKeyKey } from '../inventory/content.ts';
import type { SyncedObject } from './synced-objects.ts';

/** Facts about content, without its bytes. */
export interface MaterialFacts {
  /** Why it is not usable: a whole sentence that names the object. */
  readonly problem?: { readonly reason: 'unreadable' | 'mismatchedPair'; readonly message: string };
  /** Opaque objects: content that does not match its keys. It is written all the same. */
  readonly warning?: string;
  /** Opaque objects: the entry for certificates or a key that holds no PEM at all. */
  readonly blank?: string;
  /** Validity of its certificates: of a pair the leaf, of a bundle each. */
  readonly validity?: readonly Pick<CertificateFacts, 'notBefore' | 'notAfter'>[] | undefined;
}

export type ApiFacts =
  | { readonly state: 'absent' }
  | { readonly state: 'present'; readonly keys: readonly string[]; readonly material: MaterialFacts };

export interface DiskFacts {
  /** Whether the object's directory exists. */
  readonly present: boolean;
  /** Outcome of publishing the API's content; undefined when that content cannot be published. */
  readonly difference?: PublishOutcome;
  /** Content on disk; undefined where there is none or nothing would be replaced. */
  readonly material?: MaterialFacts;
}

export interface Projection {
  readonly object: Pick<SyncedObject, 'location' | 'published' | 'expects' | 'what' | 'isMade'>;
  readonly api: ApiFacts;
  readonly disk: DiskFacts;
  readonly now: Date;
}

type RefuseReason = 'badName' | 'tooManyNames' | 'empty' | 'missingKey' | 'unreadable' | 'mismatchedPair';

export type SyncDecision =
  /** The files are up to date. */
  | { readonly action: 'none' }
  /** `warning`: a sentence about content that is written unchanged. */
  | {
      readonly action: 'write';
      readonly reason: 'absent' | 'changed' | 'drifted';
      readonly warning?: string | undefined;
    }
  | { readonly action: 'remove'; readonly reason: 'gone' }
  /** The files stay, although the API's content differs. */
  | { readonly action: 'keep'; readonly reason: 'missing' | 'expired' | 'notYetValid'; readonly message: string }
  | { readonly action: 'refuse'; readonly reason: RefuseReason; readonly message: string };

export function project(projection: Projection): SyncDecision {
  const { object, api, disk } = projection;
  if (api.state === 'absent') return projectAbsent(object, disk);
  return refusal(projection, api) ?? projectPresent(projection, api.material);
}

function projectAbsent({ published, what, isMade = false }: Projection['object'], disk: DiskFacts): SyncDecision {
  if (published === 'optional') return disk.present ? { action: 'remove', reason: 'gone' } : { action: 'none' };
  const files = disk.present ? 'the last good files stay in use' : 'there are no files of it either';
  const message = `Cannot publish ${what}: it is not in the API, but it is required; ${files}; ${isMade ? 'mode regen makes it' : 'create it'}`;
  return { action: 'keep', reason: 'missing', message };
}

/** The checks in their order; the first that fails is the reason. */
function refusal(
  { object, disk, now }: Projection,
  api: Extract<ApiFacts, { state: 'present' }>,
): SyncDecision | undefined {
  const { what, expects, location } = object;
  const { keys, material } = api;
  const refuse = (reason: RefuseReason, problem: string): SyncDecision => ({
    action: 'refuse',
    reason,
    message: `Cannot publish ${what}: ${problem}; the last good files stay in use`,
  });
  if (keys.length > mostNames) {
    return refuse('tooManyNames', `it holds ${keys.length} entries, wanted at most ${mostNames}`);
  }
  const names = namesProblem(keys);
  if (names !== undefined) return refuse('badName', names);
  if (keys.length === 0) return refuse('empty', 'it holds no entries');
  const missing = keysOf(expects).filter((key) => !keys.includes(key));
  if (missing.length > 0) {
    return refuse('missingKey', `it holds no ${quoted(missing)}, only ${quoted(keys.toSorted())}`);
  }
  // Half of a pair in a Secret is an accident, and publishing it would remove the other half from its reader; so is an
  // empty entry. Where an opaque object has no working files on disk, nothing is removed.
  const half = [certificateKey, privateKeyKey].filter((key) => keys.includes(key));
  const takesAway = expects.kind !== 'opaque' || (disk.material !== undefined && isValid(disk.material, now));
  if (location.kind === 'secret' && half.length === 1 && takesAway) {
    const absent = half[0] === certificateKey ? privateKeyKey : certificateKey;
    return refuse('missingKey', `it holds ${quoted(half)} without "${absent}"`);
  }
  if (material.blank !== undefined && takesAway) return refuse('empty', `its ${quoted([material.blank])} holds no PEM`);
  if (material.problem !== undefined) return refuse(material.problem.reason, material.problem.message);
  return undefined;
}

function projectPresent(projection: Projection, material: MaterialFacts): SyncDecision {
  const { disk, now } = projection;
  if (disk.difference === 'unchanged') return { action: 'none' };
  if (disk.difference === 'repaired') return { action: 'write', reason: 'drifted' };
  if (isOutOfTime(material, now) && disk.material !== undefined && isValid(disk.material, now)) {
    return outOfTime(projection, material, disk.material);
  }
  const { warning } = material;
  return { action: 'write', reason: disk.present ? 'changed' : 'absent', warning };
}

/**
 * Expired: an older etcd snapshot was restored, or its rotator is behind. Not yet valid: signed by a machine whose
 * clock is ahead, or this one's is behind. The files on disk still work.
 */
function outOfTime({ object, now }: Projection, theirs: MaterialFacts, ours: MaterialFacts): SyncDecision {
  const begins = (theirs.validity ?? []).map(({ notBefore }) => notBefore).filter((date) => date > now);
  const first = begins.toSorted((a, b) => a.getTime() - b.getTime())[0];
  const keep = (reason: 'expired' | 'notYetValid', state: string, until: string): SyncDecision => {
    const files = `the files are valid until ${lastEnd(ours)?.toISOString()}`;
    const message = `Cannot publish ${object.what}: it ${state}, and ${files}; they stay in use until ${until}`;
    return { action: 'keep', reason, message };
  };
  return first === undefined
    ? keep('expired', `expired at ${lastEnd(theirs)?.toISOString()}`, 'the object is renewed')
    : keep('notYetValid', `is not valid before ${first.toISOString()}`, 'then, or until it is renewed');
}

const quoted = (keys: readonly string[]): string => keys.map((key) => JSON.stringify(key)).join(', ');

/** notAfter of the certificate that is valid longest. */
export function lastEnd({ validity = [] }: MaterialFacts): Date | undefined {
  return validity.map(({ notAfter }) => notAfter).toSorted((a, b) => b.getTime() - a.getTime())[0];
}

/** Whether it has certificates, and none is valid. */
function isOutOfTime({ validity }: MaterialFacts, now: Date): boolean {
  return validity !== undefined && !validity.some(({ notBefore, notAfter }) => notBefore <= now && now < notAfter);
}

function isValid(material: MaterialFacts, now: Date): boolean {
  return material.validity !== undefined && material.problem === undefined && !isOutOfTime(material, now);
}
