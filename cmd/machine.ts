// `regen.machine`: tells the management cluster when the certificates of this Machine end now. A timer asks each minute, so
// what was told is noted (/run), and told again once a day in case somebody has changed it.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { replaceFile } from '../lib/disk/files.ts';
import type { RegenConfig } from '../lib/config/mode-settings.ts';
import { errorText, RecoveryError } from '../lib/errors.ts';
import { annotateMachine, expiryText, machineText } from '../lib/regen/machine-expiry.ts';
import { withConnection } from './connections.ts';
import type { Runtime } from './runtime.ts';

const askingMs = 8_000;

/** `notAfter`: of what kube-apiserver serves. Never rejects: a management cluster that is away is none of this machine's faults. */
export async function keepMachineExpiry(mode: RegenConfig, notAfter: Date, runtime: Runtime): Promise<void> {
  const { machine, lockDir } = mode;
  const { clock, log, signal } = runtime;
  if (machine === undefined) return;
  const note = join(lockDir, 'machine-expiry');
  const today = clock.now().toISOString().slice(0, 10);
  const content = `${machine.namespace}/${machine.name} ${expiryText(notAfter)} ${today}\n`;
  if ((await readFile(note, 'utf8').catch(() => undefined)) === content) return;
  try {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(askingMs)]);
    const connecting = { config: { once: true }, clock, log, signal: limited };
    const outcome = await withConnection(machine.kubeconfig, connecting, (connection) =>
      annotateMachine({ connection, machine, notAfter, signal: limited }),
    );
    if (outcome === 'written') {
      log.info('machine.annotated', { message: machineText(machine), notAfter: notAfter.toISOString() });
    }
    await replaceFile({ path: note, content, mode: 0o600, what: 'note' });
  } catch (err) {
    const code = err instanceof RecoveryError ? err.code : undefined;
    log.warn('machine.failed', { message: machineText(machine), err: errorText(err), code });
  }
}
