// `init`: uploads the first generation to the running API and makes the identities of the modes.
import { systemClock } from '../lib/clock.ts';
import { installedSettings } from '../lib/config/installed.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import { type InitOutcome, renderInitManifests, runInit } from '../lib/install/init.ts';
import { resolve } from '../lib/inventory/resolve.ts';
import { createLog } from '../lib/log.ts';
import { webhookText } from '../lib/webhooks/intercepting.ts';
import { connect } from './connections.ts';
import { exitCodes, exitOfUnmet } from './exit-codes.ts';
import { configInput, installFlags, type InstallLine, type InstallOptions } from './read-config.ts';
import type { Io } from './io.ts';

export async function initCommand(line: InstallLine, io: Io): Promise<number> {
  const { flags, options, problems } = installFlags(line, io);
  const input = configInput(flags, io);
  const config = parseToolConfig({ ...input, problems });
  const resolved = resolve(config.inventory, config.environment);
  const namespace = flags.namespace;
  const where = {
    resolved,
    directory: options.directory,
    ...(namespace !== undefined && { namespace }),
    ...(config.components !== undefined && { components: config.components }),
  };
  if (config.dryRun) {
    io.stdout.write(await renderInitManifests(where));
    return exitCodes.done;
  }
  const log = createLog({ ...config.log, write: (entry) => void io.stderr.write(entry) });
  const connecting = { config, clock: systemClock, log, signal: io.signal };
  const connection = await connect(config.kubeconfig, connecting);
  try {
    const { recoveryServerName } = config;
    const { server = connection.server } = options;
    const settings = installedSettings({ ...input, environment: config.environment });
    const outcome = await runInit({ ...where, ...connecting, connection, server, recoveryServerName, settings });
    io.stdout.write(
      options.output === 'json' ? `${JSON.stringify(outcome, undefined, 2)}\n` : initText(outcome, options),
    );
    return exitOfUnmet([...outcome.differing, ...outcome.missing].map((message) => ({ message })));
  } finally {
    await connection.close();
  }
}

export function initText(outcome: InitOutcome, { directory }: Pick<InstallOptions, 'directory'>): string {
  const lines = [
    `Created ${outcome.created.length} objects, updated ${outcome.updated.length}; ${outcome.unchanged.length} were there.`,
    ...outcome.files.map((path) => `Wrote ${path}`),
    ...outcome.differing.map((what) => `${what} differs from the staged one and was left alone`),
    ...outcome.missing.map((what) => `${what} is missing: neither in the API nor staged`),
    ...outcome.webhooks.map(webhookText),
    ...stagingLines(outcome),
    `Run now: kube-cert-recovery --config ${directory}/config.yaml`,
  ];
  return `${lines.filter((line) => line !== '').join('\n')}\n`;
}

/** Whoever leaves signers' keys lying about must know. */
function stagingLines({ stagingRemoved, stagingKept }: InitOutcome): string[] {
  if (stagingRemoved) return ["The staging directory with the signers' keys was removed."];
  if (stagingKept === undefined) return [];
  return [
    `Signers' keys are still in "${stagingKept}", because not every object in the API is the staged one. Either`,
    `  the objects in the API are right: remove that directory (rm -r ${stagingKept}); or`,
    '  the staged ones are right: delete the differing objects in the API. Then run init again.',
  ];
}
