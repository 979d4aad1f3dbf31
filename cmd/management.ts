// The places of `regen.sources`, `regen.deliveries` and `regen.machine`: objects of the management cluster, files of this
// machine, a command. Each is asked for a limited time, because a kubelet may be waiting.
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RegenConfig } from '../lib/config/mode-settings.ts';
import type { ManagementPlace, PairDelivery, PairSource } from '../lib/config/management-settings.ts';
import { realDisk } from '../lib/disk/disk.ts';
import { readRegularFile, replaceFile } from '../lib/disk/files.ts';
import { errorText, isCode, RecoveryError, systemCode } from '../lib/errors.ts';
import { certificateKey, privateKeyKey } from '../lib/inventory/content.ts';
import { encodePem, readPem } from '../lib/pki/pem.ts';
import { bringPairs, deliverPairs, type PairBytes, type PairDestination, type PairOrigin } from '../lib/regen/bring.ts';
import { annotateMachine, expiryText, machineText } from '../lib/regen/machine-expiry.ts';
import type { Store } from '../lib/store/store.ts';
import { lockHost } from '../lib/host/sole-writer.ts';
import { createApiStore } from '../lib/store/api-store.ts';
import type { Api } from '../lib/install/apply.ts';
import { withConnection } from './connections.ts';
import type { Runtime } from './runtime.ts';

/** For all of one place. Of the drop-in's time the repair itself needs a part, too. */
const placeMs = 8000;
const mostBytes = 1 << 20;

/** Whether any was brought: then another look shows what is still missing. */
export async function bringHere(mode: RegenConfig, store: Store, runtime: Runtime): Promise<boolean> {
  const origins = Object.entries(mode.sources).map(([name, source]) => [name, originOf(source, runtime)] as const);
  if (origins.length === 0) return false;
  // Another run has the files now, and what was repaired is to be restarted first: the next run asks again.
  const lock = await lockHost({ ...runtime, lockDir: mode.lockDir }).catch((err: unknown) => {
    if (!isCode(err, 'AlreadyRunning', 'WriteFailed')) throw err;
    runtime.log.warn('pair.failed', { err: err.message, code: err.code });
  });
  if (lock === undefined) return false;
  try {
    return (await bringPairs(new Map(origins), { ...runtime, store })).length > 0;
  } finally {
    await lock.release();
  }
}

/** Into the Secrets that are named. */
export async function deliverFromHere(mode: RegenConfig, store: Store, runtime: Runtime): Promise<void> {
  const all = Object.entries(mode.deliveries).map(([name, one]) => [name, destinationOf(one, runtime)] as const);
  if (all.length > 0) await deliverPairs(new Map(all), { ...runtime, store });
}

const secretText = ({ namespace, name, kubeconfig }: ManagementPlace): string =>
  `Secret "${namespace}/${name}" (kubeconfig "${kubeconfig}")`;

/** Of another cluster: no name of this one's API server is asked for. */
function withPlace<T>(
  { kubeconfig }: ManagementPlace,
  { clock, log, signal }: Runtime,
  work: (api: Api) => Promise<T>,
): Promise<T> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(placeMs)]);
  return withConnection(kubeconfig, { config: { once: true }, clock, log, signal: limited }, (connection) =>
    work({ connection, signal: limited }),
  );
}

const withSecrets = <T>(place: ManagementPlace, runtime: Runtime, work: (store: Store) => Promise<T>): Promise<T> =>
  withPlace(place, runtime, ({ connection }) =>
    work(createApiStore({ connection, fieldManager: 'kube-cert-recovery' })),
  );

/**
 * `regen.machine`: tells the management cluster until when kube-apiserver serves what it serves now. A timer asks each
 * minute, so what was told is noted (/run), and told again once a day in case somebody has changed it. Never rejects: a
 * management cluster that is away is none of this machine's faults.
 */
export async function keepMachineExpiry(mode: RegenConfig, notAfter: Date, runtime: Runtime): Promise<void> {
  const { machine, lockDir } = mode;
  const { clock, log } = runtime;
  if (machine === undefined) return;
  const note = join(lockDir, 'machine-expiry');
  const today = clock.now().toISOString().slice(0, 10);
  const content = `${machine.namespace}/${machine.name} ${expiryText(notAfter)} ${today}\n`;
  if ((await readFile(note, 'utf8').catch(() => undefined)) === content) return;
  try {
    const outcome = await withPlace(machine, runtime, (api) => annotateMachine({ ...api, machine, notAfter }));
    if (outcome === 'written') {
      log.info('machine.annotated', { message: machineText(machine), notAfter: notAfter.toISOString() });
    }
    await replaceFile({ path: note, content, mode: 0o600, what: 'note' });
  } catch (err) {
    const code = err instanceof RecoveryError ? err.code : undefined;
    log.warn('machine.failed', { message: machineText(machine), err: errorText(err), code });
  }
}

function originOf({ secret, pemPair, command }: PairSource, runtime: Runtime): PairOrigin {
  if (secret !== undefined) {
    const text = secretText(secret);
    const read = (signal: AbortSignal): Promise<PairBytes> =>
      withSecrets(secret, runtime, async (store) => {
        const { namespace, name } = secret;
        const limited = AbortSignal.any([signal, AbortSignal.timeout(placeMs)]);
        const entries = (await store.read({ kind: 'secret', namespace, name }, limited))?.entries ?? {};
        const { [certificateKey]: certificate, [privateKeyKey]: key } = entries;
        if (certificate !== undefined && key !== undefined) return { certificate, key };
        throw new RecoveryError('MaterialInvalid', `Cannot use ${text}: it is absent, or has no pair`);
      });
    return { text, read };
  }
  if (pemPair !== undefined) {
    const { certFile, keyFile } = pemPair;
    const read = async (): Promise<PairBytes> => ({ certificate: await bytes(certFile), key: await bytes(keyFile) });
    return { text: `files "${certFile}" and "${keyFile}"`, read };
  }
  const [program = '', ...args] = command ?? [];
  const text = `command "${program}"`;
  return { text, read: async (signal) => pairIn(await outputOf(program, args, signal, text), text) };
}

function destinationOf({ secret }: PairDelivery, runtime: Runtime): PairDestination {
  const { namespace, name } = secret;
  return {
    text: secretText(secret),
    location: { kind: 'secret', namespace, name },
    withStore: (work) => withSecrets(secret, runtime, work),
  };
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
    const limited = AbortSignal.any([signal, AbortSignal.timeout(placeMs)]);
    const options = {
      signal: limited,
      killSignal: 'SIGKILL',
      maxBuffer: mostBytes,
      encoding: 'buffer',
      env: {},
    } as const;
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
