// The configuration of this invocation: reads the file of --config and leaves all judgement to lib/config.ts.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { ConfigInput } from '../lib/config-reading.ts';
import type { Flags } from '../lib/config-types.ts';
import { errorText, RecoveryError, systemCode } from '../lib/errors.ts';
import { installedPresets } from '../lib/inventory/preset.ts';
import type { Io } from './io.ts';

export interface CommandLine extends Flags {
  readonly config?: string;
}

/** For what concerns the files of a host: those of kubeadm, where nothing else is said. */
export function orKubeadm(flags: CommandLine): CommandLine {
  const isNamed = flags.preset !== undefined || flags.config !== undefined;
  return isNamed ? flags : { ...flags, preset: 'kubeadm' };
}

export function configInput({ config, ...flags }: CommandLine, { env, cwd }: Pick<Io, 'env' | 'cwd'>): ConfigInput {
  const input = { flags, env, cwd, presets: installedPresets };
  if (config === undefined) return input;
  const path = resolve(cwd, config);
  try {
    return { ...input, file: { path, text: readFileSync(path, 'utf8') } };
  } catch (cause) {
    const message = `Cannot read configuration "${path}": ${systemCode(cause) ?? errorText(cause)}`;
    throw new RecoveryError('ConfigInvalid', message, { cause });
  }
}
