// `uninstall`: takes away what `init` made.
import { systemClock } from '../lib/clock.ts';
import { parseToolConfig } from '../lib/config.ts';
import { giveBackFiles } from '../lib/install/give-back.ts';
import { layoutOf } from '../lib/install/layout.ts';
import { runUninstall } from '../lib/install/uninstall.ts';
import { resolve } from '../lib/inventory/resolve.ts';
import { createLog } from '../lib/log.ts';
import { connect } from './connections.ts';
import { exitCodes } from './exit-codes.ts';
import { installFlags } from './install-flags.ts';
import type { InstallLine } from './install-flags.ts';
import type { Io } from './io.ts';
import { configInput } from './read-config.ts';

export async function uninstallCommand(line: InstallLine, io: Io): Promise<number> {
  const { flags, options, problems } = installFlags(line, io);
  const config = parseToolConfig({ ...configInput(flags, io), problems });
  const log = createLog({ ...config.log, write: (entry) => void io.stderr.write(entry) });
  const connection = await connect(config.kubeconfig, { config, clock: systemClock, log, signal: io.signal });
  try {
    const { dryRun, destinationDir = layoutOf(options.directory).certs } = config;
    const resolved = resolve(config.inventory, config.environment);
    const { removed } = await runUninstall({
      connection,
      resolved,
      directory: options.directory,
      purge: options.purge,
      dryRun,
      signal: io.signal,
    });
    const given = options.giveBack ? await giveBackFiles({ resolved, destinationDir, dryRun }) : [];
    const lines = [
      ...removed.map((what) => `${dryRun ? 'Would remove' : 'Removed'} ${what}`),
      ...given.map((directory) => `${dryRun ? 'Would make' : 'Made'} plain files in ${directory}`),
    ];
    io.stdout.write(lines.length === 0 ? 'Nothing to remove.\n' : lines.map((text) => `${text}\n`).join(''));
    return exitCodes.done;
  } finally {
    await connection.close();
  }
}
