// How things are seen from outside: an API client that stays connected, the moment at which a file holds what it must,
// the certificate that is served, the memory of a process. No code is shared with what is measured.
import { readFileSync, watch } from 'node:fs';
import { Agent, request } from 'node:https';
import { dirname } from 'node:path';
import { connect } from 'node:tls';
import { setTimeout as delay } from 'node:timers/promises';
import type { ControlPlane } from '../../test/support/cluster/control-plane.ts';
import type { Line, Tool } from '../../test/support/cluster/recovery-world.ts';

/** Events that tell of a write of regen. */
export const writes: ReadonlySet<string | undefined> = new Set([
  'signer.regenerated',
  'caBundle.updated',
  'copy.updated',
  'target.regenerated',
]);

export interface ApiObject {
  readonly metadata: { readonly name: string; resourceVersion?: string };
  data: Record<string, string>;
}

/** An administrator on one connection, so that no handshake is measured. Times are those of the acknowledgement. */
export class Admin {
  readonly #agent: Agent;
  readonly #controlPlane: ControlPlane;

  constructor(controlPlane: ControlPlane, connections = 1) {
    this.#controlPlane = controlPlane;
    this.#agent = new Agent({
      keepAlive: true,
      maxSockets: connections,
      ca: readFileSync(controlPlane.recoveryCa),
      servername: 'localhost-recovery',
    });
  }

  send(method: 'GET' | 'PUT' | 'POST', path: string, body?: unknown): Promise<{ body: unknown; at: number }> {
    const { port, adminToken } = this.#controlPlane;
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' };
      const sent = request({ host: '127.0.0.1', port, path, method, agent: this.#agent, headers }, (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => (text += chunk));
        response.on('end', () => {
          const at = performance.now();
          const ok = (response.statusCode ?? 500) < 300;
          if (ok) resolve({ body: JSON.parse(text), at });
          else reject(new Error(`${method} ${path}: ${response.statusCode}`));
        });
      });
      sent.on('error', reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  async get(path: string): Promise<ApiObject> {
    return (await this.send('GET', path)).body as ApiObject;
  }

  /** Replaces the object whatever it is now; when that was acknowledged. */
  async put(path: string, object: ApiObject): Promise<number> {
    const { resourceVersion: _, ...metadata } = object.metadata;
    return (await this.send('PUT', path, { ...object, metadata })).at;
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** Resolves with the time at which `file`, reached through links beside it, first holds `content`. */
export function fileHolds(file: string, content: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const look = (): void => {
      let text: string | undefined;
      try {
        text = readFileSync(file, 'utf8');
      } catch {
        return; // between two generations, or not there yet
      }
      if (text !== content) return;
      const at = performance.now();
      clearTimeout(limit);
      watcher.close();
      resolve(at);
    };
    const limit = setTimeout(() => {
      watcher.close();
      reject(new Error(`${file} does not hold the new content after 10 s`));
    }, 10_000);
    const watcher = watch(dirname(file), look);
    look();
  });
}

/** One handshake: SHA-256 of the certificate that is served for `servername`. */
export function servedFingerprint(port: number, servername: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, servername, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerX509Certificate()?.fingerprint256 ?? '');
      socket.destroy();
    });
    socket.once('error', reject);
  });
}

export interface Served {
  readonly port: number;
  readonly servername: string;
  readonly fingerprint: string;
}

/** Handshake after handshake until the certificate is served; the end of the first that saw it. */
export async function isServed({ port, servername, fingerprint }: Served): Promise<number> {
  const deadline = performance.now() + 20_000;
  while ((await servedFingerprint(port, servername)) !== fingerprint) {
    if (performance.now() > deadline) throw new Error(`the new certificate is not served for ${servername}`);
  }
  return performance.now();
}

export async function until(
  tool: Tool,
  wanted: (lines: readonly Line[]) => boolean,
  withinMs = 120_000,
): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!wanted(tool.lines)) {
    const ended = await Promise.race([tool.ended, delay(5, 'running')]);
    if (ended !== 'running') throw new Error(`the program ended with exit code ${String(ended)}`);
    if (performance.now() > deadline) throw new Error('the program did not get there in time');
  }
}

/** Epoch milliseconds at which the program wrote a line. */
export const timeOf = ({ fields }: Line): number => Date.parse(String(fields['time']));

export interface Memory {
  readonly rss: number;
  /** Private, not reclaimable. */
  readonly anonymous: number;
  readonly peak: number;
}

export function memoryOf(pid: number): Memory {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8');
  const mb = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1]) / 1024;
  return { rss: mb('VmRSS'), anonymous: mb('RssAnon'), peak: mb('VmHWM') };
}
