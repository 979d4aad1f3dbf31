// Requests a kubelet's next client certificate with the key of the expired one, and waits for it. The request has a
// name of its own for each expired certificate, as a kubelet's first request has for each key (pkg/kubelet/certificate/
// bootstrap, digestedName): a later run, after a boot or a minute later, finds the request that exists, so that a timer
// floods no cluster. A request whose answer cannot be used is followed by another, and that one in ten minutes at the
// earliest.
import { randomBytes } from 'node:crypto';
import { expiredCertificateAnnotation, kubeletClientSigner, workerAccount } from '../bootstrap-identity.ts';
import { type Clock, steadyMs } from '../clock.ts';
import { durationText } from '../duration.ts';
import { isCode, RecoveryError } from '../errors.ts';
import { unanswered } from '../kube/api-error.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { ReceivedRequest } from '../kube/received.ts';
import { collectionPath, resourcePath, typeMeta } from '../kube/resources.ts';
import { type Log, Repeats } from '../log.ts';
import { parseCertificateRequest } from '../pki/csr.ts';
import { keyAlgorithmOf } from '../pki/key.ts';
import { signRequest } from '../pki/own-request.ts';
import { type ConnectAsIssued, type Expired, judgeIssued, nextRequestName } from './issued.ts';

export interface Asking {
  readonly connection: Pick<KubeConnection, 'request' | 'server'>;
  /**
   * User name of the worker account at the API server. Undefined: not known, and the name of the service account must
   * do.
   */
  readonly account: string | undefined;
  /** Connects with the issued certificate, which is tried before it is used. */
  readonly connectAs: ConnectAsIssued;
  /** Time to wait for the API server, the approver and the signer together. */
  readonly waitMs: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

const awayMs = 1000;
/** Pause between two reads of a pending request: a fifth of the time that it has been pending. */
const pauseMs = (pendingMs: number): number => Math.min(Math.max(pendingMs / 5, 200), 2000);
const longestRequestMs = 10_000;
/** Unusable certificates in one run. A clock that is ahead takes each request for an old one. */
const mostRefusals = 10;
/** Delay after a request whose answer cannot be used, unless it is the first. */
const askedAgainMs = 600_000;

export const requestName = ({ leaf }: Pick<Expired, 'leaf'>): string =>
  `kube-cert-recovery-worker-${leaf.facts.fingerprint.slice(0, 32)}`;

type RequestBody = Awaited<ReturnType<typeof requestObject>>;

/** The CertificateSigningRequest to create. Throws SignFailed. */
export async function requestObject(expired: Expired, name = requestName(expired)) {
  const { leaf, key } = expired;
  const request = Buffer.from(await signRequest(leaf.fields.subject, key)).toString('base64');
  // A kubelet requests "key encipherment" with an RSA key only (pkg/kubelet/certificate/kubelet.go).
  const encipherment = keyAlgorithmOf(key).name === 'RSA' ? ['key encipherment'] : [];
  return {
    ...typeMeta('CertificateSigningRequest'),
    metadata: { name, annotations: { [expiredCertificateAnnotation]: leaf.pem } },
    spec: { request, signerName: kubeletClientSigner, usages: ['digital signature', ...encipherment, 'client auth'] },
  };
}

/**
 * The issued certificate, PEM. Throws KubeUnavailable when there is none in time, KubeRejected when the request was
 * refused, MaterialInvalid when the issued certificate cannot be used, even after a second request.
 */
export async function askForCertificate(expired: Expired, asking: Asking): Promise<Buffer> {
  const { connection, waitMs, clock, log, signal } = asking;
  const until = steadyMs(clock) + waitMs;
  let name = requestName(expired);
  let body = await requestObject(expired);
  const cannot = cannotRenew(expired.node);
  const met = new Repeats(clock);
  let isThere = false;
  let askedAt = steadyMs(clock);
  let refusals = 0;
  for (;;) {
    const timeoutMs = Math.min(longestRequestMs, Math.max(until - steadyMs(clock), awayMs));
    const looking = lookAndTry({ ...asking, name, body, isThere, timeoutMs, expired });
    const answer = await unlessAway(looking);
    const isAway = answer instanceof RecoveryError;
    if (isAway) {
      if (isCode(answer, 'KubeNotFound')) isThere = false; // another client has deleted it
      if (met.met('api') !== undefined) log.info('api.waiting', { server: connection.server, err: answer.message });
    } else if (answer === 'taken') {
      // Any client that may create requests can take the name: the run goes on with another name.
      log.warn('csr.taken', { csr: name, node: expired.node, message: 'another one of that name is there' });
      name = `${requestName(expired)}-${randomBytes(4).toString('hex')}`;
      body = await requestObject(expired, name);
    } else {
      if (!isThere) {
        log.info('csr.requested', { csr: name, node: expired.node });
        askedAt = steadyMs(clock);
      }
      isThere = true;
      if (Buffer.isBuffer(answer.judged)) return answer.judged;
      if (answer.judged !== undefined) {
        const { problem, next } = answer.judged;
        const state = `the certificate in CertificateSigningRequest "${name}" cannot be used, ${problem}`;
        const isFirst = name === requestName(expired);
        refusals += 1;
        const isOver = signal.aborted || steadyMs(clock) >= until || refusals > mostRefusals;
        if (isOver || (!isFirst && !isOld(answer, clock.now())))
          throw cannot('MaterialInvalid', `${state}; the expired one stays, and a new one is asked for in ten minutes`);
        log.warn('csr.refused', { csr: name, node: expired.node, message: `${state}; another one is asked for` });
        name = next;
        body = await requestObject(expired, name);
        isThere = false;
        continue;
      }
    }
    if (signal.aborted || steadyMs(clock) >= until) throw tooLate(cannot, name, durationText(waitMs), answer);
    await clock.sleep(isAway ? awayMs : pauseMs(steadyMs(clock) - askedAt), signal);
  }
}

/**
 * Whether a request has our key, and equals ours in everything that an approval depends on: a client that has seen the
 * bytes of an earlier request can send them again, in a request that no approver approves.
 */
function isOurs(
  { metadata, spec = {} }: ReceivedRequest,
  { expired: { leaf }, body: own, account }: Pick<Look, 'expired' | 'body' | 'account'>,
): boolean {
  const { request: bytes = '', signerName, usages = [], expirationSeconds, username = '' } = spec;
  const isAlike =
    signerName === own.spec.signerName &&
    expirationSeconds === undefined &&
    usages.toSorted().join() === own.spec.usages.toSorted().join() &&
    metadata?.annotations?.[expiredCertificateAnnotation] === leaf.pem;
  if (!isAlike || !(account === undefined ? username.endsWith(`:${workerAccount}`) : username === account))
    return false;
  try {
    const request = parseCertificateRequest(Buffer.from(bytes, 'base64'), 'request');
    return request.publicKeyInfo.equals(leaf.fields.publicKeyInfo);
  } catch {
    return false; // our own request parses
  }
}

/**
 * Keeps errors of an API server that is starting, which refuses some requests and answers others, or is gone in
 * between.
 */
async function unlessAway<T>(looking: Promise<T>): Promise<T | RecoveryError> {
  return looking.catch((err: unknown) => {
    if (isCode(err, 'KubeNotFound', ...unanswered)) return err;
    throw err;
  });
}

function tooLate(cannot: Cannot, name: string, waited: string, last: Tried | 'taken' | RecoveryError): RecoveryError {
  if (last instanceof RecoveryError) {
    return cannot('KubeUnavailable', `the API server has not answered in ${waited} (${last.message})`, last);
  }
  if (last !== 'taken' && (last.status?.conditions ?? []).some(({ type }) => type === 'Approved')) {
    const state = `CertificateSigningRequest "${name}" has been approved, and not signed in ${waited}; it stays, and is looked at again`;
    return cannot(
      'KubeUnavailable',
      `${state}. See that kube-controller-manager runs, and has --cluster-signing-cert-file`,
    );
  }
  const state = `CertificateSigningRequest "${name}" has not been approved and signed in ${waited}; it stays, and is looked at again`;
  return cannot('KubeUnavailable', `${state}. Why, the approver says in its log (csr.pending); see that one runs`);
}

type Cannot = (code: RecoveryError['code'], problem: string, cause?: unknown) => RecoveryError;

const cannotRenew =
  (node: string): Cannot =>
  (code, problem, cause) =>
    new RecoveryError(code, `Cannot renew the client certificate of node "${node}": ${problem}`, { cause });

interface Look extends Pick<Asking, 'connection' | 'connectAs' | 'account' | 'clock' | 'signal'> {
  readonly name: string;
  readonly body: RequestBody;
  readonly isThere: boolean;
  readonly timeoutMs: number;
  readonly expired: Expired;
}

/**
 * A request with the verdict on its certificate: the certificate, or why it is refused, with the name of the next
 * request.
 */
interface Tried extends ReceivedRequest {
  readonly judged?: Buffer | { readonly problem: string; readonly next: string } | undefined;
}

async function lookAndTry(looking: Look): Promise<Tried | 'taken'> {
  const { name, expired, clock } = looking;
  const answer = await look(looking);
  const issued = answer === 'taken' ? undefined : issuedIn(answer, name, cannotRenew(expired.node));
  if (answer === 'taken' || issued === undefined) return answer;
  const judged = await judgeIssued(issued, expired, { ...looking, now: clock.now() });
  const next = nextRequestName(requestName(expired), issued);
  return { ...answer, judged: Buffer.isBuffer(judged) ? judged : { ...judged, next } };
}

const isOld = ({ metadata }: ReceivedRequest, now: Date): boolean =>
  now.getTime() - Date.parse(metadata?.creationTimestamp ?? '') >= askedAgainMs;

/**
 * The request as stored in the API; created where it does not exist. `taken`: another client's request has its name.
 */
async function look(looking: Look): Promise<ReceivedRequest | 'taken'> {
  const { connection, name, body, isThere, timeoutMs, signal } = looking;
  const kind = 'CertificateSigningRequest';
  const path = resourcePath(kind, { name });
  if (isThere) return connection.request<ReceivedRequest>({ method: 'GET', path, timeoutMs, signal });
  try {
    return await connection.request<ReceivedRequest>({
      method: 'POST',
      path: collectionPath(kind),
      body,
      timeoutMs,
      signal,
    });
  } catch (err) {
    if (!isCode(err, 'KubeConflict')) throw err;
    const found = await connection.request<ReceivedRequest>({ method: 'GET', path, timeoutMs, signal });
    return isOurs(found, looking) ? found : 'taken';
  }
}

/** Undefined while it is pending, or approved and not yet signed. Throws KubeRejected. */
function issuedIn({ status }: ReceivedRequest, name: string, cannot: Cannot): Buffer | undefined {
  const { certificate = '', conditions = [] } = status ?? {};
  for (const [type, did] of [
    ['Denied', 'was denied'],
    ['Failed', 'was not signed'],
  ] as const) {
    const refusal = conditions.find((one) => one.type === type);
    if (refusal === undefined) continue;
    const why = [refusal.reason, refusal.message?.slice(0, 200)].filter((text) => (text ?? '') !== '').join(': ');
    const until = 'no other one is made until it is gone: kube-controller-manager removes it after an hour';
    throw cannot('KubeRejected', `CertificateSigningRequest "${name}" ${did} (${why || 'no reason given'}); ${until}`);
  }
  if (typeof certificate !== 'string')
    throw cannot('MaterialInvalid', `CertificateSigningRequest "${name}" holds no text`);
  return certificate === '' ? undefined : Buffer.from(certificate, 'base64');
}
