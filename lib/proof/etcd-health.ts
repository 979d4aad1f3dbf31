// Whether the etcd member of this machine works in its cluster. Its /health answers true only after a read that a quorum of
// the members has confirmed, and only while no alarm is raised (etcd-io/etcd, server/etcdserver/api/etcdhttp/health.go).
import { get } from 'node:https';
import type { Address } from '../address.ts';
import { errorText } from '../errors.ts';
import type { ProofResult } from './result.ts';

export interface EtcdHealthOptions extends Address {
  /** PEM: the CAs that may have signed what the member serves. */
  readonly ca: string;
  /** PEM of who asks: etcd talks to nobody else. */
  readonly client: { readonly cert: string; readonly key: string };
  readonly signal: AbortSignal;
}

const timeoutMs = 5_000;
/** The answer is some 30 bytes. */
const mostBytes = 4096;

/** One request. Never rejects. */
export async function proveEtcdHealth(options: EtcdHealthOptions): Promise<ProofResult> {
  const { host, port } = options;
  const member = `etcd at ${host}:${port}`;
  try {
    const answer = await answerOf(options);
    const { health, reason } = JSON.parse(answer) as { readonly health?: unknown; readonly reason?: unknown };
    if (health === 'true') return { state: 'proven', message: `The member is healthy and has a quorum: ${member}` };
    const why = typeof reason === 'string' && /^[\w ,.:-]{1,200}$/.test(reason) ? `: ${reason}` : '';
    return { state: 'unproven', message: `The member is not healthy: ${member}${why}` };
  } catch (err) {
    return { state: 'unproven', message: `No answer of ${member}: ${errorText(err)}` };
  }
}

function answerOf({ host, port, ca, client, signal }: EtcdHealthOptions): Promise<string> {
  const until = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  return new Promise((resolve, reject) => {
    const asked = { host, port, path: '/health', ca, ...client, agent: false, signal: until } as const;
    get(asked, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (part: string) => {
        text += part;
        if (text.length > mostBytes) answer.destroy(new Error('the answer is too long'));
      });
      answer.on('end', () => resolve(text));
      answer.on('error', reject);
    }).on('error', reject);
  });
}
