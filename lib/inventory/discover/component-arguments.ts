// The arguments of a component on a command line, whatever starts it. Pure.
import { basename } from 'node:path';
import { shellCommands } from './shell-script.ts';

const shells: ReadonlySet<string> = new Set(['sh', 'bash', 'dash', 'ash', 'busybox']);

/** Programs that start another program, given in their own words. */
const runners: ReadonlySet<string> = new Set(
  (
    'env nice ionice chrt taskset numactl stdbuf setpriv runuser sudo su-exec gosu chroot flock timeout tini dumb-init ' +
    'go-runner docker podman nerdctl ctr'
  ).split(' '),
);

/**
 * Returns the words behind the program of this name, also where a shell or another program starts it (`sh -c 'exec
 * kubelet ...'`, `docker run ... etcd ...`). Undefined where that program is not started.
 */
export function argumentsOf(
  component: string,
  words: readonly string[],
  variables: ReadonlyMap<string, string> = new Map(),
): readonly string[] | undefined {
  const shell = words.findIndex((word) => shells.has(basename(word)));
  const isStarted = shell === 0 || (shell > 0 && runners.has(programOf(words)));
  const option = isStarted ? words.findIndex((word, at) => at > shell && /^-[a-z]*c$/.test(word)) : -1;
  if (option < 0) return argumentsBehind(component, words);
  const commands = shellCommands(words[option + 1] ?? '', { variables, parameters: words.slice(option + 2) });
  return commands.flatMap((command) => {
    const args = argumentsBehind(component, command);
    return args === undefined ? [] : [args];
  })[0];
}

function argumentsBehind(component: string, words: readonly string[]): readonly string[] | undefined {
  const program = programOf(words);
  const at = words.findIndex((word) => !word.startsWith('-') && isProgram(component, basename(word)));
  return at < 0 || (!isProgram(component, program) && !runners.has(program)) ? undefined : words.slice(at + 1);
}

const programOf = (words: readonly string[]): string => basename(words.find((word) => !/^\w+=/.test(word)) ?? '');

/** Whether a file is the program; it may have its version behind its name: etcd-v3.5.9. */
const isProgram = (component: string, file: string): boolean =>
  file === component || (file.startsWith(component) && /^[-_]v?\d[\w.+-]*$/.test(file.slice(component.length)));
