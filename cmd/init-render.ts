// `init render`: the whole first generation as files, before there is an API, and the flags of the components that
// read them.
import { systemClock } from '../lib/clock.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import { runRender } from '../lib/install/render.ts';
import type { RenderOutcome } from '../lib/install/render.ts';
import { resolve } from '../lib/inventory/resolve.ts';
import { exitCodes } from './exit-codes.ts';
import type { Io } from './io.ts';
import { configInput, installFlags } from './read-config.ts';
import type { InstallLine } from './read-config.ts';

export async function initRenderCommand(line: InstallLine, io: Io): Promise<number> {
  const { flags, options, problems } = installFlags(line, io);
  const config = parseToolConfig({ ...configInput(flags, io), problems });
  const outcome = await runRender({
    resolved: resolve(config.inventory, config.environment),
    directory: options.directory,
    ...(options.server !== undefined && { server: options.server }),
    ...(config.keyAlgorithm !== undefined && { keyAlgorithm: config.keyAlgorithm }),
    dryRun: config.dryRun,
    clock: systemClock,
    signal: io.signal,
  });
  io.stdout.write(
    options.output === 'json' ? `${JSON.stringify(outcome, undefined, 2)}\n` : text(outcome, config.dryRun),
  );
  return exitCodes.done;
}

function text({ directory, written, kept, notMade, flags, kubeconfigs }: RenderOutcome, dryRun: boolean): string {
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
  lines.push('', `When the API answers, run: kube-cert-recovery init --out ${directory} --kubeconfig ADMIN_KUBECONFIG`);
  return `${lines.join('\n')}\n`;
}
