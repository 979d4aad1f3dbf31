// Problems of a configuration or an inventory, collected and shown together: one run shows all mistakes. Each names its
// place (path, line), the present and the wanted state.
import { RecoveryError } from './errors.ts';
import type { ErrorCode } from './errors.ts';

export interface Problem {
  /** `artefacts[3].issuer`, `--mode`, `env KUBECONFIG`. Empty: the whole file. */
  readonly path: string;
  readonly kind: 'syntax' | 'unknown' | 'required' | 'invalid' | 'duplicate' | 'notFound' | 'conflict';
  /** The sentence after the path: the wanted state and, where there is one, the present one. */
  readonly message: string;
  readonly line?: number;
  /** The file, when there are several. */
  readonly source?: string;
}

/** Path of a value as people write it: `artefacts[3].location.secret`. */
export function pathText(path: readonly PropertyKey[]): string {
  let text = '';
  for (const segment of path) {
    if (typeof segment === 'number') text += `[${segment}]`;
    else if (/^[A-Za-z_][\w-]*$/.test(String(segment))) text += `${text === '' ? '' : '.'}${String(segment)}`;
    else text += `[${JSON.stringify(String(segment))}]`;
  }
  return text;
}

/** A value for a message: JSON on one line, cut where it gets long. */
export function valueText(value: unknown): string {
  const text = value === undefined ? 'nothing' : (JSON.stringify(value) ?? typeof value);
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

/** One line: where, and what is wrong with it. */
export function problemText({ source, line, path, message }: Problem): string {
  const where = [source, line === undefined ? undefined : `line ${line}`]
    .filter((part) => part !== undefined)
    .join(' ');
  return [where, path, message].filter((part) => part !== '').join(': ');
}

/** A file with more problems is of another kind: they are of no help, and fill a log. */
const mostShown = 50;
const longestShown = 1000;
/** Characters of all lines: a message is one line of the log. */
const longestList = 7500;
const shortened = (text: string): string => (text.length > longestShown ? `${text.slice(0, longestShown)}...` : text);

/** One error that lists the problems, in the order of the file. */
export function problemsError(code: ErrorCode, headline: string, problems: readonly Problem[]): RecoveryError {
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
  const lines: string[] = [];
  for (const problem of problems.slice(0, mostShown)) {
    const line = `  ${shortened(problemText(problem))}`;
    if (lines.join('\n').length + line.length > longestList) break;
    lines.push(line);
  }
  if (problems.length > lines.length) lines.push(`  and ${problems.length - lines.length} more`);
  return new RecoveryError(code, `${headline}: ${count}\n${lines.join('\n')}`, {
    details: { problems: problems.length, usage: problems.some(({ path }) => path.startsWith('--')) },
  });
}

/** Whether a typed word or flag is the reason: then the usage is of help. */
export const isWrongUsage = (err: unknown): boolean => err instanceof RecoveryError && err.details['usage'] === true;

function distance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const current = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const substitution = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      current[j] = Math.min((previous[j] ?? 0) + 1, (current[j - 1] ?? 0) + 1, substitution);
    }
    previous = current;
  }
  return previous[b.length] ?? 0;
}

/** Longest name that is compared with each known name. */
const longestName = 100;

/** The known name that `name` most likely means, undefined when none is near. */
export function nearest(name: string, known: Iterable<string>): string | undefined {
  if (name.length > longestName) return undefined;
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const candidate of known) {
    const far = distance(name.toLowerCase(), candidate.toLowerCase());
    if (best === undefined || far < best.distance) best = { name: candidate, distance: far };
  }
  return best !== undefined && best.distance <= Math.max(2, Math.floor(name.length / 3)) ? best.name : undefined;
}

/** ` (did you mean "x"?)`, or the list of known names while that is short, or nothing. */
export function suggestion(name: string, known: Iterable<string>): string {
  const names = [...known];
  const best = nearest(name, names);
  if (best !== undefined) return ` (did you mean "${best}"?)`;
  return names.length > 0 && names.length <= 20 ? ` (known: ${names.join(', ')})` : '';
}
