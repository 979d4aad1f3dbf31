// A worker follows its cluster's CA when that was renewed with its own key. The kubelet verifies the API server by the
// CA in kubelet.conf, and its own clients by the file that its configuration names: both are rewritten before a
// certificate is requested, which needs an API server that can be verified. While no CA that is held here expires soon,
// nothing is fetched and nothing is logged. The successor comes from the cluster-info of kubeadm
// (kube/cluster-info.ts), over a connection that verifies the key of the CA (kube/public-object.ts); authority.ts
// decides.
import { isRecent, steadyMs } from '../clock.ts';
import { durationText } from '../duration.ts';
import { isCode, RecoveryError } from '../errors.ts';
import { RunState } from '../host/state.ts';
import { caBundleKey } from '../inventory/content.ts';
import type { DiskLocation } from '../inventory/model.ts';
import { pathOf } from '../inventory/places.ts';
import { unanswered } from '../kube/api-error.ts';
import { type ClusterInfo, clusterInfoPath, clusterInfoText, publishedAuthority } from '../kube/cluster-info.ts';
import { readServer } from '../kubeconfig/credentials.ts';
import { Repeats } from '../log.ts';
import { type Certificate, wholeCertificates } from '../pki/certificate.ts';
import { version } from '../program.ts';
import { authorityKey, type Found, locationText, type Store } from '../store/store.ts';
import { endingOf, followedBy, judgeOffer, worstEnding } from './authority.ts';
import { authorityLocations, replaceLocked, type WorkerHost } from './kubelet-files.ts';

const tryMs = 5_000;
const againMs = 1_000;
/** Interval for a CA that has not expired: a timer runs each minute. */
const askedAgainMs = 3_600_000;

/** A file of this machine that holds CAs. */
interface Holder {
  readonly location: DiskLocation;
  readonly entry: string;
  readonly found: Found;
  readonly certificates: readonly Certificate[];
}

/**
 * `due`: with dryRun. Throws MaterialInvalid where the CA has expired and the CA offered in its place must not be
 * trusted, KubeUnavailable where none is offered in time. For a CA that has not expired yet nothing is thrown.
 */
export async function followAuthority(options: WorkerHost): Promise<'current' | 'due' | 'followed'> {
  const { lockDir, clock, log } = options;
  const holders = await holdersOf(options);
  const held = holders.all.flatMap(({ certificates }) => certificates);
  if (worstEnding(held, clock.now()) === undefined) return 'current';
  const tell = async (errors: readonly RecoveryError[]): Promise<void> => {
    const text = errors.map(({ message }) => message).join('; ');
    if (errors.length === 0 || !(await new RunState(lockDir).isNews('authority-failed', text, clock.now()))) return;
    for (const { code, message } of errors) log.warn('authority.failed', { code, err: message });
  };
  try {
    const outcome = await follow(holders, held, options);
    await tell(holders.unread);
    return outcome;
  } catch (err) {
    if (!(err instanceof RecoveryError) || isShutOut(holders.ofKubelet, clock.now())) throw err;
    await tell([...holders.unread, err]);
    return 'current';
  }
}

/**
 * Whether the CAs in kubelet.conf verify no API server any more. An expired CA next to a valid one shuts out no API
 * server: CAs stay in bundles until they have expired.
 */
const isShutOut = (ofKubelet: Holder | undefined, now: Date): boolean =>
  ofKubelet !== undefined && ofKubelet.certificates.every((one) => endingOf(one, now) === 'expired');

/** The successor of a CA in kubelet.conf that has not expired is fetched once an hour, and not waited for. */
async function follow(
  { all: holders, ofKubelet: first }: Holders,
  held: readonly Certificate[],
  options: WorkerHost,
): Promise<'current' | 'due' | 'followed'> {
  const { clock, dryRun } = options;
  // Files left behind by an interrupted run need no API.
  const here = leftBehind(holders, held, clock.now());
  if (here.length > 0) return dryRun ? 'due' : publish(here, held, options);
  if (dryRun) return 'due';
  const waits = isShutOut(first, clock.now());
  if (first === undefined || (!waits && !(await isAskedAgain(options)))) return 'current';
  const offered = waits ? await waitForOffer(first, held, options) : await lookOnce(first, held, options);
  if (offered === undefined) return 'current';
  const known = [...held, offered];
  return publish(leftBehind(holders, known, clock.now()), known, options);
}

const leftBehind = (holders: readonly Holder[], known: readonly Certificate[], now: Date): readonly Holder[] =>
  holders.filter(({ certificates }) => followedBy(certificates, known, now) !== undefined);

interface Holders {
  readonly all: readonly Holder[];
  /** Holder in kubelet.conf: its CA verifies the API server. */
  readonly ofKubelet?: Holder | undefined;
  /** Errors of files that cannot be read. */
  readonly unread: readonly RecoveryError[];
}

/** CAs of all files, kubelet.conf first. A file that does not parse holds none: other checks report why. */
async function holdersOf(options: WorkerHost): Promise<Holders> {
  const { store, signal } = options;
  const { own, all } = await authorityLocations(options);
  const unread: RecoveryError[] = [];
  const found = all.map((location) =>
    holderAt(location, store, signal).catch((err: unknown) => {
      if (!(err instanceof RecoveryError)) throw err;
      unread.push(err);
      return undefined;
    }),
  );
  const holders = await Promise.all(found);
  const ofKubelet = own.length > 0 ? holders[0] : undefined;
  return { all: holders.filter((one) => one !== undefined), ofKubelet, unread };
}

async function holderAt(location: DiskLocation, store: Store, signal: AbortSignal): Promise<Holder | undefined> {
  const entry = location.kind === 'kubeconfig' ? authorityKey : caBundleKey;
  const found = await store.read(location, signal);
  const bytes = found?.entries[entry];
  const certificates = bytes ? wholeCertificates(bytes) : [];
  return found && certificates.length > 0 ? { location, entry, found, certificates } : undefined;
}

/** Whether an hour has passed. Noted before the request: whatever its outcome, the next minute is silent. */
async function isAskedAgain({ lockDir, clock }: WorkerHost): Promise<boolean> {
  const now = clock.now();
  const state = new RunState(lockDir);
  if (isRecent((await state.getText('authority-asked'))?.at, askedAgainMs, now)) return false;
  await state.keep('authority-asked', '', now);
  return true;
}

/** `server`: the API server that answered. */
interface Offer {
  readonly server: string;
  readonly offered: Uint8Array | { readonly problem: string };
}

/** Fetches cluster-info. Throws as readPublicObject. */
async function ask({ certificates }: Holder, { kubeletConf, clock, signal }: WorkerHost): Promise<Offer> {
  const { server, serverName } = await readServer(kubeletConf);
  const { readPublicObject } = await import('../kube/public-object.ts');
  const userAgent = `kube-cert-recovery/${version}`;
  const how = { server, serverName, anchors: certificates, userAgent, timeoutMs: tryMs, clock, signal };
  const object = await readPublicObject<ClusterInfo>({ ...how, path: clusterInfoPath });
  return { server, offered: publishedAuthority(object) };
}

const cannotFollow = (holder: Holder, problem: string, code: RecoveryError['code'], cause?: unknown): RecoveryError => {
  const [{ facts }] = holder.certificates as [Certificate];
  const ends = `which ends at ${facts.notAfter.toISOString()}`;
  const what = `Cannot renew the CA in ${locationText(holder.location)}, ${ends}`;
  return new RecoveryError(code, `${what}: ${problem}`, { cause });
};

/** Undefined: the cluster has no successor yet. Throws MaterialInvalid for a CA that must not be trusted. */
function accepted(offer: Offer, holder: Holder, held: readonly Certificate[], now: Date): Certificate | undefined {
  const { server, offered } = offer;
  const judgement =
    'problem' in offered ? ({ state: 'refused', reason: offered.problem } as const) : judgeOffer(offered, held, now);
  if (judgement.state === 'refused') {
    const state = `what ${clusterInfoText} of ${server} offers is refused, ${judgement.reason}`;
    throw cannotFollow(holder, `${state}; see who has written that, or bring the CA here by hand`, 'MaterialInvalid');
  }
  return judgement.state === 'successor' ? judgement.certificate : undefined;
}

/** Fetches once for a CA that has not expired: an error is logged, not thrown. */
async function lookOnce(
  first: Holder,
  held: readonly Certificate[],
  options: WorkerHost,
): Promise<Certificate | undefined> {
  const { clock, log } = options;
  try {
    return accepted(await ask(first, options), first, held, clock.now());
  } catch (err) {
    if (!(err instanceof RecoveryError)) throw err;
    const fields = { path: pathOf(first.location), code: err.code, err: err.message };
    if (isCode(err, 'KubeNotFound', ...unanswered)) log.info('api.waiting', fields);
    else log.warn('authority.refused', fields);
    return undefined;
  }
}

/** Waits: the control plane may still be starting. */
async function waitForOffer(first: Holder, held: readonly Certificate[], options: WorkerHost): Promise<Certificate> {
  const { waitMs, clock, log, signal } = options;
  const until = steadyMs(clock) + waitMs;
  const met = new Repeats(clock);
  for (;;) {
    let last: RecoveryError;
    try {
      const offer = await ask(first, options);
      const certificate = accepted(offer, first, held, clock.now());
      if (certificate !== undefined) return certificate;
      const state = `${clusterInfoText} of ${offer.server} still has the CA that is here: see why no control-plane node has renewed it`;
      last = cannotFollow(first, state, 'KubeUnavailable');
    } catch (err) {
      if (isCode(err, 'ConfigInvalid')) throw cannotFollow(first, err.message, err.code, err);
      if (!isCode(err, 'KubeNotFound', ...unanswered)) throw err;
      last = cannotFollow(first, `nothing was offered, ${err.message}`, 'KubeUnavailable', err);
    }
    if (met.met('offer') !== undefined) log.info('api.waiting', { err: last.message });
    if (signal.aborted || steadyMs(clock) >= until) {
      throw new RecoveryError(last.code, `${last.message}; waited ${durationText(waitMs)}`, { cause: last });
    }
    await clock.sleep(againMs, signal);
  }
}

/** Writes every file whose CA has a successor, read again under the lock. */
async function publish(
  behind: readonly Holder[],
  known: readonly Certificate[],
  options: WorkerHost,
): Promise<'current' | 'followed'> {
  const { store, clock, log, signal } = options;
  const locations = behind.map(({ location }) => location);
  const hasWritten = await replaceLocked(locations, options, async (location) => {
    const present = await holderAt(location, store, signal);
    const next = present && followedBy(present.certificates, known, clock.now());
    if (present === undefined || next === undefined) return undefined;
    const [{ facts }] = next as [Certificate];
    return {
      entries: { [present.entry]: Buffer.from(next.map(({ pem }) => pem).join('')) },
      seen: present.found,
      onWritten: () =>
        log.info('authority.updated', { path: pathOf(location), notAfter: facts.notAfter.toISOString() }),
    };
  });
  return hasWritten ? 'followed' : 'current';
}
