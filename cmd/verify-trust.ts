// `verify`: whether everybody on this machine who must trust somebody does so, from its real flags and files; with --at
// for another day, with --without as if a CA were gone.
import { resolve } from 'node:path';
import { systemClock } from '../lib/clock.ts';
import { parseFingerprint } from '../lib/config/authority-settings.ts';
import type { FlagsOf } from '../lib/config/flags.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import { errorText, RecoveryError } from '../lib/errors.ts';
import { allDirectories } from '../lib/inventory/located.ts';
import { directoriesOfKubeadm } from '../lib/inventory/discover/kubeadm-machine.ts';
import { movedPaths } from '../lib/inventory/discover/named-files.ts';
import type { Problem } from '../lib/problems.ts';
import { renderTrust, type TrustFormat } from '../lib/status/trust-report.ts';
import { fingerprintsIn, gatherTrust } from '../lib/trust/gather-trust.ts';
import { judgeRelations } from '../lib/trust/judge-relations.ts';
import { relations } from '../lib/trust/relations.ts';
import { exitOfTrust } from './exit-codes.ts';
import type { Io } from './io.ts';
import { type CommandLine, configInput, orKubeadm, outputFormat } from './read-config.ts';
import { dateOfFlag } from './status-flags.ts';

export type VerifyLine = CommandLine & FlagsOf<'verify'>;

const formats = ['table', 'json', 'yaml', 'mermaid'] as const satisfies readonly TrustFormat[];

export async function verifyCommand(line: VerifyLine, io: Io): Promise<number> {
  const { output: wanted, at: asked, without, ...flags } = line;
  const problems: Problem[] = [];
  const output = outputFormat(formats, wanted, problems);
  const at = dateOfFlag(asked, problems) ?? systemClock.now();
  const { inventory, environment } = parseToolConfig({ ...configInput(orKubeadm(flags), io), problems });
  const usual = directoriesOfKubeadm(allDirectories(inventory, {}));
  const here = directoriesOfKubeadm(allDirectories(inventory, environment.directories ?? {}));
  const { facts, notes } = await gatherTrust({
    ...here,
    moved: movedPaths(usual, here),
    without: without === undefined ? new Set() : await takenOut(without, io.cwd),
  });
  const report = { at, without, rows: judgeRelations(relations, facts, at), notes };
  io.stdout.write(renderTrust(report, output));
  return exitOfTrust(report);
}

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
