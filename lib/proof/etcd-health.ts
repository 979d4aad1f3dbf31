// Whether the etcd member of this machine works in its cluster, and whether the other members would without it. A
// member's /health answers true only after a read that a quorum of the members has confirmed, and only while no alarm
// is raised (etcd-io/etcd, server/etcdserver/api/etcdhttp/health.go). The member here returns the list of members
// (api/v3rpc/member.go; over HTTP by the gateway, which --enable-grpc-gateway=false removes).
import { bounds } from '../bounds.ts';
import type { Address } from '../address.ts';
import { errorText, RecoveryError } from '../errors.ts';
import type { ProofResult } from './result.ts';

export interface EtcdHealthOptions extends Address {
  /** PEM: the CAs that may have signed the member's serving certificate. */
  readonly ca: string;
  /** PEM of the client: etcd accepts no connection without one. */
  readonly client: { readonly cert: string; readonly key: string };
  readonly signal: AbortSignal;
}

/** A voting member. */
export interface EtcdMember {
  readonly name: string;
  readonly isHere: boolean;
  /** Why the member does not count; undefined: it is healthy and has a quorum. */
  readonly problem: string | undefined;
}

const timeoutMs = 5_000;
const mostCharacters = bounds.etcd.most.characters;

/** Sends one request. Never rejects. */
export async function proveEtcdHealth(options: EtcdHealthOptions): Promise<ProofResult> {
  const { host, port } = options;
  const member = `etcd at ${host}:${port}`;
  try {
    const answer = await answerOf(options, '/health');
    const { health, reason } = JSON.parse(answer) as { readonly health?: unknown; readonly reason?: unknown };
    if (health === 'true') return { state: 'proven', message: `The member is healthy and has a quorum: ${member}` };
    const why = typeof reason === 'string' && /^[\w ,.:-]{1,200}$/.test(reason) ? `: ${reason}` : '';
    return { state: 'unproven', message: `The member is not healthy: ${member}${why}` };
  } catch (err) {
    return { state: 'unproven', message: `No answer of ${member}: ${errorText(err)}` };
  }
}

/**
 * Whether the member here may stop for a moment: the other members keep a quorum. Where they cannot, because there are
 * one or two members, no order of restarts keeps it, and it is enough that all other members are healthy. Pure.
 */
export function judgeQuorum(members: readonly EtcdMember[]): ProofResult {
  const others = members.filter(({ isHere }) => !isHere);
  const isOneOfThem = others.length === members.length - 1;
  const unwell = others.filter(({ problem }) => problem !== undefined);
  const needed = Math.min(Math.floor(members.length / 2) + 1, others.length);
  if (isOneOfThem && others.length - unwell.length >= needed) {
    return {
      state: 'proven',
      message: `Of ${members.length} members ${others.length - unwell.length} others are healthy`,
    };
  }
  const told = unwell.map(({ name, problem }) => `member ${name} is not healthy: ${problem}`);
  if (!isOneOfThem) told.push('the member here is not one of those that vote');
  const left = `of ${members.length} members ${needed} others must be healthy, ${others.length - unwell.length} are`;
  return { state: 'unproven', message: `${left}: ${told.join('; ')}` };
}

/** Queries each voting member. Throws the error of the member here where it returns no list. */
export async function askEtcdMembers(options: EtcdHealthOptions): Promise<readonly EtcdMember[]> {
  // Not linearizable: the list is available without a quorum, too.
  const { header, members } = JSON.parse(await answerOf(options, '/v3/cluster/member/list', '{}')) as MemberList;
  const voting = (members ?? []).filter(({ isLearner }) => isLearner !== true);
  return Promise.all(
    voting.map(async ({ ID: id, name, clientURLs }): Promise<EtcdMember> => {
      const isHere = id !== undefined && id === header?.member_id;
      const problem = isHere ? undefined : await problemAt(id, clientURLs ?? [], options);
      return {
        name: typeof name === 'string' && /^[\w.-]{1,253}$/.test(name) ? `"${name}"` : String(id),
        isHere,
        problem,
      };
    }),
  );
}

/** JSON of the gateway: unsigned numbers of 64 bits are text; false and empty fields are left out. */
interface MemberList {
  readonly header?: { readonly member_id?: unknown };
  readonly members?: readonly {
    readonly ID?: unknown;
    readonly name?: unknown;
    readonly clientURLs?: readonly string[];
    readonly isLearner?: unknown;
  }[];
}

/** Queries all addresses of a member in parallel: it is healthy where one address answers so as this member. */
async function problemAt(
  id: unknown,
  urls: readonly string[],
  options: EtcdHealthOptions,
): Promise<string | undefined> {
  if (urls.length === 0) return 'it has told no address, so it has not started yet';
  const problems = await Promise.all(
    urls.map(async (text) => {
      const url = URL.parse(text);
      if (url?.protocol !== 'https:') return 'its address is not https://';
      const host = url.hostname.replace(/^\[|\]$/g, '');
      return problemOf(id, { ...options, host, port: Number(url.port || 443) });
    }),
  );
  return problems.includes(undefined) ? undefined : problems[0];
}

/** Queries a member at one address, which may be a loopback address, where the member here answers. */
async function problemOf(id: unknown, at: EtcdHealthOptions): Promise<string | undefined> {
  const health = await proveEtcdHealth(at);
  if (health.state !== 'proven') return health.message;
  try {
    const { header } = JSON.parse(await answerOf(at, '/v3/maintenance/status', '{}')) as MemberList;
    return id !== undefined && header?.member_id === id ? undefined : `another member answers at ${at.host}:${at.port}`;
  } catch (err) {
    return `No answer of etcd at ${at.host}:${at.port}: ${errorText(err)}`;
  }
}

/** Sends a request and returns the text of the answer. A body makes it a POST. */
async function answerOf(
  { host, port, ca, client, signal }: EtcdHealthOptions,
  path: string,
  body?: string,
): Promise<string> {
  const { request } = await import('node:https'); // a run that finds nothing to prove need not load it
  const until = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  const method = body === undefined ? 'GET' : 'POST';
  return new Promise((resolve, reject) => {
    const asked = { host, port, path, method, ca, ...client, agent: false, signal: until } as const;
    const sent = request(asked, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (part: string) => {
        text += part;
        if (text.length > mostCharacters) answer.destroy(new Error('the answer is too long'));
      });
      answer.on('end', () => {
        if (body === undefined || answer.statusCode === 200) return resolve(text);
        const state = `status ${answer.statusCode}`;
        reject(new RecoveryError('ProofFailed', `Cannot ask etcd at ${host}:${port} for ${path}: ${state}`));
      });
      answer.on('error', reject);
    });
    sent.on('error', reject);
    sent.end(body);
  });
}
