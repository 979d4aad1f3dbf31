// The places of `regen.sources`, `regen.deliveries` and `regen.machine`: objects of the management cluster, files of this
// machine, a command. Each is asked for a limited time, because a kubelet may be waiting.
import { execFile } from 'node:child_process';
import { readFile, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { RegenConfig } from '../lib/config/mode-settings.ts';
import type { ManagementPlace, PairDelivery, PairSource } from '../lib/config/management-settings.ts';
import { realDisk } from '../lib/disk/disk.ts';
import { readRegularFile, replaceFile } from '../lib/disk/files.ts';
import { errorText, RecoveryError, systemCode } from '../lib/errors.ts';
import { certificateKey, privateKeyKey } from '../lib/inventory/content.ts';
import { encodePem, readPem } from '../lib/pki/pem.ts';
import type { Asked, PairBytes, Sources } from '../lib/plan/gather-offers.ts';
import { deliverPairs, type PairDestination } from '../lib/regen/deliver.ts';
import { annotateMachine, expiryText, machineText } from '../lib/regen/machine-expiry.ts';
import type { Store } from '../lib/store/store.ts';
import { createApiStore } from '../lib/store/api-store.ts';
import type { Api } from '../lib/install/apply.ts';
import { withConnection } from './connections.ts';
import type { Runtime } from './runtime.ts';

/** For all of one place. Of the drop-in's time the repair itself needs a part, too. */
const placeMs = 8000;
const mostBytes = 1 << 20;

/** So often a Secret is looked at whose pair is as it should be: somebody else may change it. */
const lookAgainMs = 3_600_000;

/** Of a single run: the places, and when an earlier run has asked each (/run). */
export async function sourcesOf({ sources, lockDir }: Pick<RegenConfig, 'sources' | 'lockDir'>): Promise<Sources> {
  const places = Object.entries(sources).map(async ([name, source]): Promise<[string, Asked]> => {
    const askedAt = (await noted(join(lockDir, `asked-${name}`)))?.at;
    return [name, { place: placeText(source), ...(askedAt && { askedAt }) }];
  });
  return new Map(await Promise.all(places));
}

type Asking = Pick<Runtime, 'clock' | 'log' | 'signal'>;

/**
 * The same with what these have answered. All at once, each for a limited time, and no lock is held meanwhile. Never rejects
 * but by an abort. `lockDir`: notes there when it was.
 */
export async function askSources(
  { sources, lockDir }: { readonly sources: RegenConfig['sources']; readonly lockDir?: string | undefined },
  names: readonly string[],
  asking: Asking,
): Promise<Sources> {
  const answers = Object.entries(sources).map(async ([name, source]): Promise<[string, Asked]> => {
    const place = placeText(source);
    if (!names.includes(name)) return [name, { place }];
    if (lockDir !== undefined) await note(join(lockDir, `asked-${name}`), place, asking.clock.now());
    try {
      return [name, { place, answer: await readSource(source, asking) }];
    } catch (err) {
      asking.signal.throwIfAborted();
      const problem = errorText(err);
      const code = err instanceof RecoveryError ? err.code : undefined;
      asking.log.warn('pair.failed', { artefact: name, message: place, err: problem, code });
      return [name, { place, answer: { problem } }];
    }
  });
  return new Map(await Promise.all(answers));
}

/** Into the Secrets that are named. */
export async function deliverFromHere(mode: RegenConfig, store: Store, runtime: Runtime): Promise<void> {
  const { deliveries, lockDir } = mode;
  const all = Object.entries(deliveries).map(([name, one]) => [name, destinationOf(one, runtime)] as const);
  const path = (name: string): string => join(lockDir, `delivered-${name}`);
  await deliverPairs(new Map(all), {
    ...runtime,
    store,
    async isDone(name, fingerprint) {
      const found = await noted(path(name));
      const age = found === undefined ? -1 : runtime.clock.now().getTime() - found.at.getTime();
      return found?.content === `${fingerprint}\n` && age >= 0 && age < lookAgainMs;
    },
    done: (name, fingerprint) => note(path(name), fingerprint, runtime.clock.now()),
  });
}

/** Nothing depends on a note: without it a place is asked more often. */
async function noted(path: string): Promise<{ readonly content: string; readonly at: Date } | undefined> {
  try {
    return { content: await readFile(path, 'utf8'), at: (await stat(path)).mtime };
  } catch {
    return undefined;
  }
}

/** Its time counts, also where the text is what it was. */
async function note(path: string, text: string, now: Date): Promise<void> {
  try {
    await replaceFile({ path, content: `${text}\n`, mode: 0o600, what: 'note' });
    await utimes(path, now, now);
  } catch {
    // asked again
  }
}

const secretText = ({ namespace, name, kubeconfig }: ManagementPlace): string =>
  `Secret "${namespace}/${name}" (kubeconfig "${kubeconfig}")`;

/** Of another cluster: no name of this one's API server is asked for. */
function withPlace<T>(
  { kubeconfig }: ManagementPlace,
  { clock, log, signal }: Asking,
  work: (api: Api) => Promise<T>,
): Promise<T> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(placeMs)]);
  return withConnection(kubeconfig, { config: { once: true }, clock, log, signal: limited }, (connection) =>
    work({ connection, signal: limited }),
  );
}

const withSecrets = <T>(place: ManagementPlace, runtime: Asking, work: (store: Store) => Promise<T>): Promise<T> =>
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
  const path = join(lockDir, 'machine-expiry');
  const today = clock.now().toISOString().slice(0, 10);
  const content = `${machine.namespace}/${machine.name} ${expiryText(notAfter)} ${today}\n`;
  if ((await noted(path))?.content === content) return;
  try {
    const outcome = await withPlace(machine, runtime, (api) => annotateMachine({ ...api, machine, notAfter }));
    if (outcome === 'written') {
      log.info('machine.annotated', { message: machineText(machine), notAfter: notAfter.toISOString() });
    }
    await replaceFile({ path, content, mode: 0o600, what: 'note' });
  } catch (err) {
    const code = err instanceof RecoveryError ? err.code : undefined;
    log.warn('machine.failed', { message: machineText(machine), err: errorText(err), code });
  }
}

function placeText({ secret, pemPair, command }: PairSource): string {
  if (secret !== undefined) return secretText(secret);
  if (pemPair !== undefined) return `files "${pemPair.certFile}" and "${pemPair.keyFile}"`;
  return `command "${command?.[0] ?? ''}"`;
}

/** Throws a RecoveryError with no word of a key. */
async function readSource(source: PairSource, asking: Asking): Promise<PairBytes> {
  const { secret, pemPair, command } = source;
  const text = placeText(source);
  if (secret !== undefined) {
    return withSecrets(secret, asking, async (store) => {
      const { namespace, name } = secret;
      const limited = AbortSignal.any([asking.signal, AbortSignal.timeout(placeMs)]);
      const entries = (await store.read({ kind: 'secret', namespace, name }, limited))?.entries ?? {};
      const { [certificateKey]: certificate, [privateKeyKey]: key } = entries;
      if (certificate !== undefined && key !== undefined) return { certificate, key };
      throw new RecoveryError('MaterialInvalid', `Cannot use ${text}: it is absent, or has no pair`);
    });
  }
  if (pemPair !== undefined) return { certificate: await bytes(pemPair.certFile), key: await bytes(pemPair.keyFile) };
  const [program = '', ...args] = command ?? [];
  return pairIn(await outputOf(program, args, asking.signal, text), text);
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
