// Flags of init, init render and uninstall, judged together with the configuration.
import { resolve } from 'node:path';
import { defaultDirectory } from '../lib/install/layout.ts';
import { valueText } from '../lib/problems.ts';
import type { Problem } from '../lib/problems.ts';
import type { Io } from './io.ts';
import { outputFormat } from './output-format.ts';
import type { CommandLine } from './read-config.ts';

export interface InstallLine extends CommandLine {
  readonly out?: string;
  readonly server?: string;
  readonly output?: string;
  readonly purge?: boolean;
  readonly force?: boolean;
  readonly giveBack?: boolean;
}

const formats = ['text', 'json'] as const;

export interface InstallOptions {
  /** Absolute. */
  readonly directory: string;
  readonly server?: string | undefined;
  readonly output: (typeof formats)[number];
  readonly purge: boolean;
  readonly force: boolean;
  readonly giveBack: boolean;
}

export function installFlags(
  {
    out = defaultDirectory,
    server,
    output = 'text',
    purge = false,
    force = false,
    giveBack = false,
    ...flags
  }: InstallLine,
  { cwd }: Pick<Io, 'cwd'>,
): { flags: CommandLine; options: InstallOptions; problems: readonly Problem[] } {
  const problems: Problem[] = [];
  const wanted = outputFormat(output, formats);
  if (wanted.format === undefined) problems.push(wanted.problem);
  if (server !== undefined && !isServer(server)) {
    const message = `must be an address such as https://localhost:6443, got ${valueText(server)}`;
    problems.push({ path: '--server', kind: 'invalid', message });
  }
  const options = {
    directory: resolve(cwd, out),
    server,
    output: wanted.format ?? 'text',
    purge,
    force,
    giveBack,
  };
  return { flags, options, problems };
}

function isServer(text: string): boolean {
  const url = URL.parse(text);
  return (
    url?.protocol === 'https:' && url.hostname !== '' && url.search === '' && url.hash === '' && url.username === ''
  );
}
