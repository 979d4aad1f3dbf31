// `init adopt --repair`: an adopted machine stays adopted. A timer runs it, so it is silent when nothing needs repair,
// and logs its actions.
import { machineLockDir } from '../lib/adopt/manifests-lock.ts';
import type { AdoptionRecord } from '../lib/adopt/record.ts';
import { runRepair } from '../lib/adopt/repair.ts';
import { parseRepairConfig } from '../lib/config/load.ts';
import type { Problem } from '../lib/problems.ts';
import { connectingOf } from '../lib/run/connections.ts';
import { reach, repairCredentials } from '../lib/run/repair-connection.ts';
import { exitCodes, exitOfError, exitOfFailure } from './exit-codes.ts';
import type { AdoptLine } from './init-adopt.ts';
import type { Io } from './io.ts';
import { configInput, installFlags, orKubeadm } from './read-config.ts';

export async function repairAdoptCommand({ image, ...line }: AdoptLine, io: Io): Promise<number> {
  const { flags, options, problems } = installFlags(line, io);
  const all: Problem[] = [...problems];
  if (image !== undefined) {
    const message = 'must be left out: a repair adds what the last adoption did; adopt again for another image';
    all.push({ path: '--image', kind: 'conflict', message });
  }
  const config = parseRepairConfig({ ...configInput(orKubeadm(flags), io), problems: all });
  const connecting = connectingOf(config, io);
  const { directory } = options;
  const credentials = (record: AdoptionRecord): readonly string[] =>
    config.kubeconfig === undefined ? repairCredentials(record, directory) : [config.kubeconfig];
  try {
    const { failures } = await runRepair({
      ...connecting,
      directory,
      lockDir: machineLockDir,
      dryRun: config.dryRun,
      reach: (record) => reach(credentials(record), record, connecting),
    });
    return failures.length === 0 ? exitCodes.done : exitOfError(failures[0]);
  } catch (err) {
    return exitOfFailure(err, connecting.log);
  }
}
