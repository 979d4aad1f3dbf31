// `init render`: the whole first generation as files, before there is an API, and the flags of the components that read
// them. `init`: uploads it to the running API and makes the identities of the modes. `init openshift`: prints the
// MachineConfig that installs our static pod on the control-plane nodes.
import { resolve as absolute } from 'node:path';
import { systemClock } from '../lib/clock.ts';
import { installedSettings } from '../lib/config/installed-settings.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import { type InitOutcome, renderInitManifests, runInit } from '../lib/install/init.ts';
import { type RenderOutcome, runRender } from '../lib/install/render.ts';
import { resolve } from '../lib/inventory/resolve.ts';
import { webhookText } from '../lib/webhooks/intercepting.ts';
import { connectingOf, withConnection } from '../lib/run/connections.ts';
import { exitCodes, exitOfUnmet } from './exit-codes.ts';
import { configInput, installFlags, type InstallLine, type InstallOptions } from './read-config.ts';
import type { Io } from './io.ts';
import { nextCommand, shellWord } from '../lib/next-command.ts';
import { sameInventory } from '../lib/config/given-flags.ts';
import { defaultDirectory, hostLayout } from '../lib/install/layout.ts';
import type { FlagsOf } from '../lib/config/flags.ts';
import { requireReference } from '../lib/install/container.ts';
import { besideOperatorsMachineConfig, besideOperatorsPod } from '../lib/install/openshift-beside.ts';
import { problemsError } from '../lib/problems.ts';
import { toYaml } from '../lib/yaml.ts';

export async function initCommand(line: InstallLine, io: Io): Promise<number> {
  const { flags, options, problems } = installFlags(line, io);
  const input = configInput(flags, io);
  const config = parseToolConfig({ ...input, problems });
  const resolved = resolve(config.inventory, config.environment);
  const where = { ...config, resolved, directory: options.directory, namespace: flags.namespace };
  if (config.dryRun) {
    io.stdout.write(await renderInitManifests(where));
    return exitCodes.done;
  }
  const connecting = connectingOf(config, io);
  return withConnection(config.kubeconfig, connecting, async (connection) => {
    const { server = connection.server } = options;
    const settings = installedSettings(input, config.environment);
    const outcome = await runInit({ ...where, ...connecting, connection, server, settings });
    io.stdout.write(options.output === 'json' ? jsonText(outcome) : initText(outcome, options));
    return exitOfUnmet([...outcome.differing, ...outcome.missing].map((message) => ({ message })));
  });
}

const jsonText = (outcome: object): string => `${JSON.stringify(outcome, undefined, 2)}\n`;

export function initText(outcome: InitOutcome, { directory }: Pick<InstallOptions, 'directory'>): string {
  const lines = [
    `Created ${outcome.created.length} objects, updated ${outcome.updated.length}; ${outcome.unchanged.length} were there.`,
    ...outcome.files.map((path) => `Wrote ${path}`),
    ...outcome.differing.map((what) => `${what} differs from the staged one and was left alone`),
    ...outcome.missing.map((what) => `${what} is missing: neither in the API nor staged`),
    ...outcome.webhooks.map(webhookText),
    ...stagingLines(outcome),
    `Run now: ${nextCommand('', { '--config': hostLayout(directory).configFile })}`,
    `In a container of its own a mode takes --kubeconfig=${hostLayout(directory).credentials}/MODE/kubeconfig.`,
  ];
  return `${lines.filter((line) => line !== '').join('\n')}\n`;
}

/** Warning about signers' keys that stay on disk. */
function stagingLines({ stagingRemoved, stagingKept }: InitOutcome): string[] {
  if (stagingRemoved) return ["The staging directory with the signers' keys was removed."];
  if (stagingKept === undefined) return [];
  return [
    `Signers' keys are still in "${stagingKept}", because not every object in the API is the staged one. Either`,
    `  the objects in the API are right: remove that directory (rm -r ${shellWord(stagingKept)}); or`,
    '  the staged ones are right: delete the differing objects in the API. Then run init again.',
  ];
}

export async function initRenderCommand(line: InstallLine, io: Io): Promise<number> {
  const { flags, options, problems } = installFlags(line, io);
  const config = parseToolConfig({ ...configInput(flags, io), problems });
  const resolved = resolve(config.inventory, config.environment);
  const outcome = await runRender({ ...config, ...options, resolved, clock: systemClock, signal: io.signal });
  const own = { '--out': options.directory, '--kubeconfig': outcome.kubeconfigs['admin'] };
  const next = nextCommand('init', { ...sameInventory(flags, io.cwd), ...own });
  io.stdout.write(options.output === 'json' ? jsonText(outcome) : renderText(outcome, config.dryRun, next));
  return exitCodes.done;
}

function renderText(outcome: RenderOutcome, dryRun: boolean, next: string): string {
  const { directory, written, kept, notMade, flags, kubeconfigs } = outcome;
  const lines = [
    `${dryRun ? 'Would write' : 'Wrote'} ${written.length} artefacts and files to ${directory}; ${kept.length} were there.`,
    ...notMade.map((name) => `Not made here: ${name}`),
    '',
    'Start the components with these flags besides your own:',
  ];
  for (const [component, named] of Object.entries(flags)) {
    lines.push('', component);
    for (const [flag, value] of Object.entries(named)) {
      for (const one of typeof value === 'string' ? [value] : value) lines.push(`  --${flag}=${one}`);
    }
  }
  lines.push('', 'Kubeconfigs:', ...Object.entries(kubeconfigs).map(([component, path]) => `  ${component}: ${path}`));
  lines.push('', `When the API answers, run: ${next}`);
  return `${lines.join('\n')}\n`;
}

type OpenshiftLine = InstallLine & FlagsOf<'init openshift'>;

/** With the image in it: Ignition holds the pod in base64, where the administrator could not edit the image by hand. */
export function initOpenshiftCommand({ image = '', out }: OpenshiftLine, { cwd, stdout }: Io): Promise<number> {
  if (image === '') {
    const message = 'is required: the image of this program, as every control-plane node can pull it';
    throw problemsError('ConfigInvalid', 'Cannot print the MachineConfig', [
      { path: '--image', kind: 'required', message },
    ]);
  }
  requireReference(image);
  const directory = out === undefined ? defaultDirectory : absolute(cwd, out);
  stdout.write(toYaml(besideOperatorsMachineConfig(toYaml(besideOperatorsPod(image, directory)))));
  return Promise.resolve(exitCodes.done);
}
