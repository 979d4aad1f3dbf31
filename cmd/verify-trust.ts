// `verify`: whether everybody on this machine who must trust somebody does so, from its real flags and files; with --at
// for another day, with --without as if a CA were gone, with --kubeconfig also against what the API publishes.
import { resolve } from 'node:path';
import { systemClock } from '../lib/clock.ts';
import { parseFingerprint } from '../lib/pki/fingerprint.ts';
import type { FlagsOf } from '../lib/config/flags.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import { errorText, RecoveryError } from '../lib/errors.ts';
import type { KubeConnection } from '../lib/kube/kube.ts';
import { connectingOf, withConnection } from '../lib/run/connections.ts';
import type { Problem } from '../lib/problems.ts';
import { renderTrust, type TrustFormat } from '../lib/status/trust-report.ts';
import { fingerprintsIn, type GatheredTrust } from '../lib/trust/gather-trust.ts';
import type { TrustFacts } from '../lib/trust/trust-facts.ts';
import { verifyMachine } from '../lib/trust/verify-machine.ts';
import { exitOfTrust } from './exit-codes.ts';
import type { Io } from './io.ts';
import { type CommandLine, configInput, orKubeadm, outputFormat } from './read-config.ts';
import { dateOfFlag } from './status-flags.ts';

export type VerifyLine = CommandLine & FlagsOf<'verify'>;

const formats = ['table', 'json', 'yaml', 'mermaid', 'svg'] as const satisfies readonly TrustFormat[];

export async function verifyCommand(line: VerifyLine, io: Io): Promise<number> {
  const { output: wanted, at: asked, without, ...flags } = line;
  const problems: Problem[] = [];
  const output = outputFormat(formats, wanted, problems);
  const at = dateOfFlag(asked, problems) ?? systemClock.now();
  const config = parseToolConfig({ ...configInput(orKubeadm(flags), io), problems });
  const taken = without === undefined ? undefined : await takenOut(without, io.cwd);
  const { kubeconfig } = config;
  const verify = (connection?: KubeConnection) =>
    verifyMachine(config, { at, without: taken, withApi: connection && askingApi(connection, io.signal) });
  // What only the API knows is asked where a kubeconfig is given, as everything else needs none.
  const connecting = connectingOf({ ...config, log: { ...config.log, level: 'error' } }, io);
  const verified = await (flags.kubeconfig === undefined ? verify() : withConnection(kubeconfig, connecting, verify));
  const report = { at, without, ...verified };
  io.stdout.write(renderTrust(report, output));
  return exitOfTrust(report);
}

const askingApi =
  (connection: KubeConnection, signal: AbortSignal) =>
  async (facts: TrustFacts): Promise<GatheredTrust> => {
    const { withApi } = await import('../lib/trust/gather-api.ts');
    return withApi(facts, { connection, clock: systemClock, signal });
  };

/** A fingerprint, or those of all certificates in a file. */
async function takenOut(without: string, cwd: string): Promise<ReadonlySet<string>> {
  const print = parseFingerprint(without);
  if (print !== undefined) return new Set([print]);
  const file = resolve(cwd, without);
  try {
    return await fingerprintsIn(file);
  } catch (cause) {
    const message = `Cannot take the CA out, --without must be its file or its fingerprint (SHA256:...): ${errorText(cause)}`;
    throw new RecoveryError('ConfigInvalid', message, { cause });
  }
}
