// The pair of a source in `regen.sources`: from a Secret of another cluster, from files of this machine, or printed by
// a command. Each read is limited in time, because a kubelet may be waiting, and no part of a key reaches an error.
import { stat } from 'node:fs/promises';
import type { Clock } from '../clock.ts';
import type { ManagementPlace, PairSource } from '../config/management-settings.ts';
import { realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { errorFields, RecoveryError, systemCode } from '../errors.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import { encodePem, readPem } from '../pki/pem.ts';
import type { PairBytes } from '../plan/gather-offers.ts';
import type { Store } from '../store/store.ts';
import type { ObtainedAnswer, Obtaining } from './obtaining.ts';
import { outputOf } from '../host/command.ts';
import { inTime, sourceText, withSecretsOf } from './other-cluster.ts';

export interface SourceAsking {
  /** Opens the store of the cluster that holds a Secret. */
  readonly withSecrets: <T>(place: ManagementPlace, work: (store: Store) => Promise<T>) => Promise<T>;
  readonly clock: Clock;
  /** Aborts when the time of this source is over. */
  readonly signal: AbortSignal;
}

const notRun = { problem: 'a run would run it', notRun: true } as const;

/** The pair of the source of a target, read for a limited time; or why there is none. Never rejects but by an abort. */
export async function fetched(artefact: string, run: Obtaining): Promise<ObtainedAnswer> {
  const source = run.sources[artefact] ?? {};
  const place = sourceText(source);
  if (run.purpose === 'dryRun' && source.command !== undefined) return notRun;
  try {
    return await inTime(run.signal, place, (signal) =>
      readSource(source, {
        withSecrets: (secret, work) => withSecretsOf(secret, run.connect, work),
        clock: run.clock,
        signal,
      }),
    );
  } catch (err) {
    run.signal.throwIfAborted();
    const fields = errorFields(err);
    run.log.warn('pair.failed', { artefact, message: place, ...fields });
    return { problem: fields.err };
  }
}

/** Reads the pair. Throws ReadFailed, MaterialInvalid, and errors of the store. */
export async function readSource(source: PairSource, asking: SourceAsking): Promise<PairBytes> {
  const { secret, pemPair, command } = source;
  const { withSecrets, signal } = asking;
  const text = sourceText(source);
  if (secret !== undefined) {
    return withSecrets(secret, async (store) => {
      const { namespace, name } = secret;
      const entries = (await store.read({ kind: 'secret', namespace, name }, signal))?.entries ?? {};
      const { [certificateKey]: certificate, [privateKeyKey]: key } = entries;
      if (certificate !== undefined && key !== undefined) return pairIn({ certificate, key }, text);
      throw new RecoveryError('MaterialInvalid', `Cannot use ${text}: it is absent, or has no pair`);
    });
  }
  if (pemPair !== undefined) {
    const read = async (): Promise<PairBytes> => ({
      certificate: await bytes(pemPair.certFile),
      key: await bytes(pemPair.keyFile),
    });
    return pairIn(await unlessAborted(read(), signal, text), text);
  }
  const [program = '', ...args] = command ?? [];
  const output = await outputOf([program, ...args], asking, text);
  return pairIn({ certificate: output, key: output }, text);
}

/** A file system that hangs never answers, and cannot be interrupted. */
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
    // The disk's own stat is synchronous, and would never return on a file system that hangs.
    return await readRegularFile({ ...realDisk, stat }, path);
  } catch (cause) {
    throw new RecoveryError('ReadFailed', `Cannot read "${path}": ${systemCode(cause) ?? 'unreadable'}`, { cause });
  }
}

/** Certificates and a key in PEM, in any order and among other blocks. Throws MaterialInvalid. */
function pairIn({ certificate, key }: PairBytes, text: string): PairBytes {
  const of = (pem: Uint8Array, end: string): Buffer =>
    Buffer.from(
      readPem(pem, text)
        .flatMap((block) => (block.label.endsWith(end) ? [encodePem(block)] : []))
        .join(''),
    );
  return { certificate: of(certificate, 'CERTIFICATE'), key: of(key, 'PRIVATE KEY') };
}
