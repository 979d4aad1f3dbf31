// Units of systemd as far as they start a component: the command line of ExecStart, with the variables of the unit in
// it (systemd.service(5), "Command lines"; systemd.exec(5), Environment=, EnvironmentFile=). Pure.
import { roomForValues } from './shell-script.ts';

/** A service as its unit and drop-ins define it. */
export interface ServiceUnit {
  /** The last ExecStart. */
  readonly command: string;
  /** Assignments of Environment=, then the files of EnvironmentFile= in their order. */
  readonly environment: ReadonlyMap<string, string>;
  readonly environmentFiles: readonly string[];
  /** Undefined where it is a home directory. */
  readonly workingDirectory: string | undefined;
}

/** Parses the unit `name` (`kubelet.service`) with its drop-ins, in systemd's order. Undefined: it starts nothing. */
export function serviceUnit(name: string, texts: readonly string[]): ServiceUnit | undefined {
  let command: string | undefined;
  const environment = new Map<string, string>();
  const environmentFiles: string[] = [];
  let workingDirectory: string | undefined = '/';
  for (const { key, value: written } of texts.flatMap((text) => settingsIn(text, '[Service]'))) {
    const value = withSpecifiers(written, name);
    // An empty value resets the setting.
    if (key === 'ExecStart') command = value === '' ? undefined : value.replace(/^[-@:+!|]+/, '');
    if (key === 'Environment') {
      if (value === '') environment.clear();
      for (const [variable, text] of shellWords(value).flatMap(assignment)) environment.set(variable, text);
    }
    if (key === 'EnvironmentFile') {
      if (value === '') environmentFiles.length = 0;
      else environmentFiles.push(unquoted(value.replace(/^-/, '')));
    }
    if (key === 'WorkingDirectory') workingDirectory = directoryOf(value);
  }
  return command === undefined ? undefined : { command, environment, environmentFiles, workingDirectory };
}

function directoryOf(value: string): string | undefined {
  const path = value.replace(/^-/, '');
  if (path === '') return '/';
  return path.startsWith('/') && !path.includes('%') ? path : undefined;
}

/** Replaces specifiers with the same value in every service of the system (systemd.unit(5), "Specifiers"). */
function withSpecifiers(text: string, unit: string): string {
  const whole = unit.replace(/\.[^.]*$/, '');
  const [prefix = '', instance = ''] = whole.split('@');
  const known: Readonly<Record<string, string>> = { ...fixedSpecifiers, n: unit, N: whole, p: prefix, i: instance };
  return text.replaceAll(/%([%A-Za-z])/g, (found, letter: string) => known[letter] ?? found);
}

const fixedSpecifiers = {
  '%': '%',
  C: '/var/cache',
  E: '/etc',
  L: '/var/log',
  S: '/var/lib',
  t: '/run',
  T: '/tmp',
  V: '/var/tmp',
};

/** Returns units that a unit starts with itself. */
export const unitsNamedBy = (text: string): readonly string[] =>
  settingsIn(text, '[Unit]').flatMap(({ key, value }) =>
    /^(Requires|Wants|BindsTo|Upholds)$/.test(key) ? value.split(/\s+/).filter((name) => name !== '') : [],
  );

function settingsIn(text: string, wanted: string): { readonly key: string; readonly value: string }[] {
  let section = '';
  // Comments may stand between the lines of a setting (systemd.syntax(7)).
  const lines = text
    .replaceAll(/^[ \t]*[#;].*\n?/gm, '')
    .replaceAll(/\\\r?\n/g, ' ')
    .split('\n');
  return lines.flatMap((raw) => {
    const line = raw.trim();
    if (line === '') return [];
    if (line.startsWith('[')) section = line;
    const at = line.indexOf('=');
    if (section !== wanted || at < 1) return [];
    return [{ key: line.slice(0, at).trim(), value: line.slice(at + 1).trim() }];
  });
}

const assignment = (word: string): [string, string][] => {
  const at = word.indexOf('=');
  return at < 1 ? [] : [[word.slice(0, at), word.slice(at + 1)]];
};

/** Returns variables of a file of `NAME=value` lines, the way of EnvironmentFile=; other lines are left out. */
export function environmentFile(text: string): ReadonlyMap<string, string> {
  const lines = text.replaceAll(/\\\r?\n/g, '').split('\n');
  return new Map(
    lines.flatMap((raw): [string, string][] => {
      const line = raw.trim();
      if (line === '' || line.startsWith('#') || line.startsWith(';')) return [];
      return assignment(line.replace(/^export\s+/, '')).map(([name, value]) => [name.trim(), unquoted(value.trim())]);
    }),
  );
}

const unquoted = (value: string): string =>
  value.length > 1 && /^["']/.test(value) && value.at(-1) === value[0] ? value.slice(1, -1) : value;

/** Splits a line into words, with quotes and backslashes like shells and systemd. */
export function shellWords(line: string): readonly string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote = '';
  for (let at = 0; at < line.length; at += 1) {
    const char = line[at] ?? '';
    if (quote !== '' && char === quote) quote = '';
    else if (quote === '' && (char === '"' || char === "'")) [quote, word] = [char, word ?? ''];
    else if (char === '\\' && quote !== "'") {
      at += 1;
      word = `${word ?? ''}${line[at] ?? ''}`;
    } else if (quote === '' && /\s/.test(char)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = `${word ?? ''}${char}`;
  }
  return word === undefined ? words : [...words, word];
}

/** Expands the words of a command: `$NAME` as a word is split, `${NAME}` replaced anywhere; unknown ones are empty. */
export function withVariables(command: string, variables: ReadonlyMap<string, string>): readonly string[] {
  const put = roomForValues();
  return shellWords(command).flatMap((word) => {
    const whole = /^\$(\w+)$/.exec(word)?.[1];
    if (whole !== undefined) return shellWords(put(variables.get(whole) ?? '', ''));
    const filled = word.replaceAll(/\$\$|\$\{(\w+)\}/g, (found, name: string) =>
      found === '$$' ? '$' : put(variables.get(name) ?? '', ''),
    );
    return [filled];
  });
}
