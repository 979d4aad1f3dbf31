// The pair that a source of `regen.sources` has: in a Secret of another cluster, in files of this machine, or printed by a
// command. Each is asked for a limited time, because a kubelet may be waiting, and no word of a key reaches an error.
import { execFile } from 'node:child_process';
import type { ManagementPlace, PairSource } from '../config/management-settings.ts';
import { realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { RecoveryError, systemCode } from '../errors.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import { encodePem, readPem } from '../pki/pem.ts';
import type { PairBytes } from '../plan/gather-offers.ts';
import type { Store } from '../store/store.ts';

export interface SourceAsking {
  /** Opens the store of the cluster that a Secret is in. */
  readonly withSecrets: <T>(place: ManagementPlace, work: (store: Store) => Promise<T>) => Promise<T>;
  /** Aborts when the time of this source is over. */
  readonly signal: AbortSignal;
}

const mostBytes = 1 << 20;

export const secretText = ({ namespace, name, kubeconfig }: ManagementPlace): string =>
  `Secret "${namespace}/${name}" (kubeconfig "${kubeconfig}")`;

export function sourceText({ secret, pemPair, command }: PairSource): string {
  if (secret !== undefined) return secretText(secret);
  if (pemPair !== undefined) return `files "${pemPair.certFile}" and "${pemPair.keyFile}"`;
  return `command "${command?.[0] ?? ''}"`;
}

/** Throws ReadFailed, MaterialInvalid, and what the store throws. */
export async function readSource(source: PairSource, asking: SourceAsking): Promise<PairBytes> {
  const { secret, pemPair, command } = source;
  const { withSecrets, signal } = asking;
  const text = sourceText(source);
  if (secret !== undefined) {
    return withSecrets(secret, async (store) => {
      const { namespace, name } = secret;
      const entries = (await store.read({ kind: 'secret', namespace, name }, signal))?.entries ?? {};
      const { [certificateKey]: certificate, [privateKeyKey]: key } = entries;
      if (certificate !== undefined && key !== undefined) return { certificate, key };
      throw new RecoveryError('MaterialInvalid', `Cannot use ${text}: it is absent, or has no pair`);
    });
  }
  if (pemPair !== undefined) {
    const read = async (): Promise<PairBytes> => ({
      certificate: await bytes(pemPair.certFile),
      key: await bytes(pemPair.keyFile),
    });
    return unlessAborted(read(), signal, text);
  }
  const [program = '', ...args] = command ?? [];
  return pairIn(await outputOf(program, args, signal, text), text);
}

/** A file system that hangs answers nobody, and cannot be told to stop. */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal, text: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(new RecoveryError('ReadFailed', `Cannot use ${text}: no answer in time`));
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

async function bytes(path: string): Promise<Uint8Array> {
  try {
    return await readRegularFile(realDisk, path);
  } catch (cause) {
    throw new RecoveryError('ReadFailed', `Cannot read "${path}": ${systemCode(cause) ?? 'unreadable'}`, { cause });
  }
}

/** Nothing of what it says reaches an error: that may hold a key. */
function outputOf(program: string, args: readonly string[], signal: AbortSignal, text: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // The signal also lets go of output that a process in the background holds open.
    const options = { signal, killSignal: 'SIGKILL', maxBuffer: mostBytes, encoding: 'buffer', env: {} } as const;
    execFile(program, args, options, (err, stdout) => {
      if (err === null) return resolve(stdout);
      const how = typeof err.code === 'number' ? `exit ${err.code}` : (systemCode(err) ?? err.signal ?? 'killed');
      return reject(new RecoveryError('ReadFailed', `Cannot use ${text}: ${how}`));
    });
  });
}

/** Certificates and a key in one PEM text, in any order. Throws MaterialInvalid. */
function pairIn(pem: Uint8Array, text: string): PairBytes {
  const blocks = readPem(pem, text);
  const of = (end: string): Buffer =>
    Buffer.from(blocks.flatMap((block) => (block.label.endsWith(end) ? [encodePem(block)] : [])).join(''));
  return { certificate: of('CERTIFICATE'), key: of('PRIVATE KEY') };
}
