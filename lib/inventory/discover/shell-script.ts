// Commands of a shell script, as far as the start of a component needs them: quotes, variables, parameters ("$@").
// Pure. Unknown expansions (`$(...)`, a variable that nothing sets) stay unchanged.
import { bounds } from '../../bounds.ts';

interface ShellInput {
  /** Variables of the environment. */
  readonly variables: ReadonlyMap<string, string>;
  /** `$0`, `$1` and so on. */
  readonly parameters: readonly string[];
}

interface Known extends ShellInput {
  readonly put: ReturnType<typeof roomForValues>;
  /** The last place at which an expansion can close, by its opening: no search behind it. */
  readonly ends: Readonly<Record<'(' | '{' | '`', number>>;
}

/** Words that may stand before a command: each begins a branch that need not be taken, or starts the command itself. */
const branches: ReadonlySet<string> = new Set(['if', 'then', 'else', 'elif', 'do', 'while', 'until']);
const prefixes: ReadonlySet<string> = new Set([...branches, 'exec', 'export', '{', '(', '!']);

/** Returns the words of each command of a script, with variables expanded by the assignments before it. */
export function shellCommands(script: string, input: ShellInput): readonly (readonly string[])[] {
  if (script.length > bounds.script.most.characters) return [];
  const variables = new Map(input.variables);
  const ends = { '(': script.lastIndexOf(')'), '{': script.lastIndexOf('}'), '`': script.lastIndexOf('`') };
  const known: Known = { variables, parameters: input.parameters, put: roomForValues(), ends };
  const commands: (readonly string[])[] = [];
  let at = 0;
  let isCertain = true;
  while (at < script.length) {
    const { words, end, separator } = nextCommand(script, at, known);
    const isBranch = !isCertain || branches.has(words[0] ?? '');
    const first = words.findIndex((word) => !prefixes.has(word));
    const command = first < 0 ? [] : words.slice(first);
    const assigned = command.map((word) => /^(\w+)=(.*)$/s.exec(word));
    if (assigned.every((match) => match !== null)) {
      for (const [, name = '', value = ''] of assigned)
        if (isBranch) variables.delete(name);
        else variables.set(name, value);
    }
    if (command.length > 0) commands.push(command);
    isCertain = separator !== '&&' && separator !== '||';
    at = end;
  }
  return commands;
}

interface Command {
  readonly words: readonly string[];
  /** The place behind its separator. */
  readonly end: number;
  readonly separator: string;
}

/** Parses the command at a place of the script. */
function nextCommand(script: string, start: number, known: Known): Command {
  const words: string[] = [];
  let word: string | undefined;
  let quote = '';
  const endWord = (): void => {
    if (word !== undefined) words.push(word);
    word = undefined;
  };
  for (let at = start; at < script.length; at += 1) {
    const char = script[at] ?? '';
    const rest = script.slice(at);
    const separator = quote === '' ? /^(?:\r?\n|;;?|&&|\|\|?|(?<!>)&(?!>))/.exec(rest)?.[0] : undefined;
    const isOfRedirection = separator === '&' && script[at - 1] === '>';
    if (separator !== undefined && !isOfRedirection) {
      endWord();
      return { words, end: at + separator.length, separator };
    }
    const comment = quote === '' && word === undefined ? /^#[^\n]*/.exec(rest)?.[0] : undefined;
    const escaped = quote === "'" ? undefined : /^\\(\r?\n|[^])/.exec(rest);
    const expansion = quote === "'" || !canExpand(script, at, known) ? undefined : expansionAt(rest, known);
    if (comment !== undefined) at += comment.length - 1;
    else if (escaped) {
      if (!/\n/.test(escaped[1] ?? '')) word = `${word ?? ''}${escaped[1] ?? ''}`;
      at += escaped[0].length - 1;
    } else if (expansion !== undefined) {
      at += expansion.length - 1;
      const [first, ...others] =
        quote === '' && expansion.isSplit ? expansion.texts.flatMap((text) => text.split(/\s+/)) : expansion.texts;
      if (first !== undefined && (first !== '' || quote !== '')) word = `${word ?? ''}${first}`;
      else if (expansion.texts.length === 0 && word === '') word = undefined; // "$@" without parameters is no word
      for (const other of others) {
        endWord();
        word = other;
      }
    } else if (quote !== '' && char === quote) quote = '';
    else if (quote === '' && (char === '"' || char === "'")) [quote, word] = [char, word ?? ''];
    else if (quote === '' && /\s/.test(char)) endWord();
    else word = `${word ?? ''}${char}`;
  }
  endWord();
  return { words, end: script.length, separator: '' };
}

interface Expansion {
  readonly length: number;
  readonly texts: readonly string[];
  /** Whether its text is split into words where no quotes are around it. */
  readonly isSplit: boolean;
}

/** Whether an expansion that is closed begins here. */
function canExpand(script: string, at: number, { ends }: Known): boolean {
  const char = script[at];
  if (char === '`') return at < ends['`'];
  if (char !== '$') return false;
  const next = script[at + 1];
  return (next !== '(' && next !== '{') || at < ends[next];
}

/** Returns the expansion at the beginning of a text; undefined where there is none. */
function expansionAt(text: string, { variables, parameters, put }: Known): Expansion | undefined {
  const substitution = /^(?:\$\([^)]*\)|`[^`]*`)/.exec(text)?.[0];
  if (substitution !== undefined)
    return { length: substitution.length, texts: [substitution.replaceAll('`', '$')], isSplit: false };
  const [whole, plain, inBraces, otherwise] = /^\$(?:(\w+|[@*])|\{(\w+|[@*])(?::?-([^}]*))?\})/.exec(text) ?? [];
  if (whole === undefined) return undefined;
  const name = plain ?? inBraces ?? '';
  if (name === '@' || name === '*') {
    const fits = put(parameters.slice(1).join(' '), whole) !== whole || parameters.length < 2;
    return { length: whole.length, texts: fits ? parameters.slice(1) : [whole], isSplit: false };
  }
  const value = (/^\d+$/.test(name) ? parameters[Number(name)] : variables.get(name)) ?? otherwise;
  const filled = put(value, whole);
  return { length: whole.length, texts: [filled], isSplit: filled !== whole };
}

/** Replaces a variable by its value as long as there is room for it in the text; else the written text stays. */
export function roomForValues(): (value: string | undefined, written: string) => string {
  let left: number = bounds.script.most.unfolded;
  return (value, written) => {
    if (value === undefined || value.length > left) return written;
    left -= value.length;
    return value;
  };
}

/**
 * Expands a word of a container's command, args or variables the way of its kubelet (kubernetes/kubernetes:
 * third_party/forked/golang/expansion/expand.go): `$(NAME)` is replaced, `$$` is one `$`, and an unknown variable stays unchanged.
 */
export function expanded(text: string, variables: ReadonlyMap<string, string>): string {
  const put = roomForValues();
  return text.replaceAll(/\$\$|\$\(([^()]*)\)/g, (found, name?: string) =>
    name === undefined ? '$' : put(variables.get(name), found),
  );
}
