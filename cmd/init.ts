// `init`: uploads the first generation to the running API and makes the identities of the modes.
import { readFile } from 'node:fs/promises';
import { systemClock } from '../lib/clock.ts';
import { parseToolConfig } from '../lib/config.ts';
import { renderInitManifests, runInit } from '../lib/install/init.ts';
import type { InitOutcome } from '../lib/install/init.ts';
import { resolve } from '../lib/inventory/resolve.ts';
import { createLog } from '../lib/log.ts';
import { parseYaml } from '../lib/yaml.ts';
import { connect } from './connections.ts';
import { exitCodes } from './exit-codes.ts';
import { installFlags } from './install-flags.ts';
import type { InstallLine, InstallOptions } from './install-flags.ts';
import type { Io } from './io.ts';
import { configInput } from './read-config.ts';
import type { CommandLine } from './read-config.ts';

export async function initCommand(line: InstallLine, io: Io): Promise<number> {
  const { flags, options, problems } = installFlags(line, io);
  const config = parseToolConfig({ ...configInput(flags, io), problems });
  const resolved = resolve(config.inventory, config.environment);
  const namespace = flags.namespace;
  const where = { resolved, directory: options.directory, ...(namespace !== undefined && { namespace }) };
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
    const settings = await settingsOf(flags, config.environment);
    const outcome = await runInit({ ...where, ...connecting, connection, server, recoveryServerName, settings });
    io.stdout.write(options.output === 'json' ? `${JSON.stringify(outcome, undefined, 2)}\n` : text(outcome, options));
    return outcome.differing.length + outcome.missing.length === 0 ? exitCodes.done : exitCodes.failed;
  } finally {
    await connection.close();
  }
}

/** What the modes must be told of this cluster: as the flags and the configuration file told us. */
async function settingsOf(
  { config, preset, namespace }: CommandLine,
  environment: object,
): Promise<Readonly<Record<string, unknown>>> {
  const file = config === undefined ? {} : (parseYaml(await readFile(config, 'utf8')) as object);
  const {
    apiVersion: _,
    kind: __,
    modes: ___,
    syncer: ____,
    kubeconfig: _____,
    ...kept
  } = { ...file } as Record<string, unknown>;
  return {
    ...kept,
    ...(preset !== undefined && { preset }),
    ...(namespace !== undefined && { namespace }),
    ...environment,
  };
}

function text(outcome: InitOutcome, { directory }: InstallOptions): string {
  const lines = [
    `Created ${outcome.created.length} objects, updated ${outcome.updated.length}; ${outcome.unchanged.length} were there.`,
    ...outcome.files.map((path) => `Wrote ${path}`),
    ...outcome.differing.map((what) => `${what} differs from the staged one and was left alone`),
    ...outcome.missing.map((what) => `${what} is missing: neither in the API nor staged`),
    ...outcome.webhooks.map(webhookText),
    outcome.stagingRemoved ? "The staging directory with the signers' keys was removed." : '',
    `Run now: kube-cert-recovery --config ${directory}/config.yaml`,
  ];
  return `${lines.filter((line) => line !== '').join('\n')}\n`;
}

function webhookText({ configuration, webhook, blocks, exemption }: InitOutcome['webhooks'][number]): string {
  const effect = blocks ? 'stops recovery when its backend is down' : 'delays recovery when its backend is down';
  return `${configuration}: webhook "${webhook}" intercepts these objects and ${effect}; add to it: ${JSON.stringify(exemption)}`;
}
