// Checks a value of unknown shape against a zod schema and reports all differences as problems in our own words. In the
// schemas of this project an `error` text is the wanted state ("an absolute path"); the value is added here.
import * as z from 'zod';
import { nearest, pathText, suggestion, valueText } from '../problems.ts';
import type { Problem } from '../problems.ts';

// Each schema is used a few times in a process: compiling a function of its own for it takes longer than it saves.
z.config({ jitless: true });

type CheckedShape<T> = { readonly value: T } | { readonly problems: readonly Problem[] };

export interface DocumentPlace {
  /** Path of the checked value in its file. */
  readonly path: readonly PropertyKey[];
  readonly lineOf: (path: readonly PropertyKey[]) => number | undefined;
  readonly source?: string | undefined;
}

export const nowhere: DocumentPlace = { path: [], lineOf: () => undefined };

/** A problem at `path` below `place`, with its line and its file. */
export function problemAt(
  place: DocumentPlace,
  path: readonly PropertyKey[],
  what: Pick<Problem, 'kind' | 'message'>,
): Problem {
  const whole = [...place.path, ...path];
  const line = place.lineOf(whole);
  return {
    path: pathText(whole),
    ...what,
    ...(line === undefined ? {} : { line }),
    ...(place.source === undefined ? {} : { source: place.source }),
  };
}

const typeWords: Readonly<Record<string, string>> = {
  string: 'text',
  object: 'a mapping',
  record: 'a mapping',
  array: 'a list',
  boolean: 'true or false',
  int: 'a whole number',
  number: 'a number',
};

function sizeText(issue: { origin: string; minimum?: unknown; maximum?: unknown }): string {
  const [word, size] = issue.minimum === undefined ? ['at most', issue.maximum] : ['at least', issue.minimum];
  if (issue.origin === 'array') return `a list of ${word} ${String(size)}`;
  if (issue.origin === 'string') return `text of ${word} ${String(size)} characters`;
  return `${word} ${String(size)}`;
}

/** Returns the wanted state; for an unknown key the known ones: only here the schema without it is known. */
function wanted(issue: z.core.$ZodRawIssue): string {
  if (issue.code === 'unrecognized_keys') {
    return issue.inst instanceof z.ZodObject ? Object.keys(issue.inst.shape).join(' ') : '';
  }
  if (issue.code === 'invalid_type') return typeWords[issue.expected] ?? issue.expected;
  if (issue.code === 'invalid_value') {
    return issue.values.length === 1 ? valueText(issue.values[0]) : `one of ${issue.values.map(String).join(', ')}`;
  }
  return issue.code === 'too_small' || issue.code === 'too_big' ? sizeText(issue) : 'valid';
}

/** Returns "did you mean", but no list: the sentence before it has the list already. */
function nearText(got: unknown, known: readonly string[]): string {
  const near = typeof got === 'string' ? nearest(got, known) : undefined;
  return near === undefined ? '' : ` (did you mean "${near}"?)`;
}

function mustBe(wantedText: string, got: unknown, known: readonly string[] = []): Pick<Problem, 'kind' | 'message'> {
  if (got === undefined) return { kind: 'required', message: `is required: ${wantedText}` };
  return { kind: 'invalid', message: `must be ${wantedText}, got ${valueText(got)}${nearText(got, known)}` };
}

function sentence(issue: z.core.$ZodIssue): Pick<Problem, 'kind' | 'message'> {
  if (issue.code === 'invalid_value') {
    return mustBe(issue.message, issue.input, issue.values.length > 1 ? issue.values.map(String) : []);
  }
  if (issue.code === 'invalid_key') {
    return mustBe(`a key that is ${issue.issues[0]?.message ?? 'valid'}`, issue.input);
  }
  const { discriminator, options = [] } = issue as { discriminator?: string; options?: readonly unknown[] };
  if (discriminator === undefined) return mustBe(issue.message, issue.input);
  const got = (issue.input as Readonly<Record<string, unknown>> | undefined)?.[discriminator];
  return mustBe(`one of ${options.join(', ')}`, got, options.map(String));
}

/** Checks `value`; every problem carries its path and its line. */
export function checkShape<T>(schema: z.ZodType<T>, value: unknown, place: DocumentPlace = nowhere): CheckedShape<T> {
  const result = schema.safeParse(value, { error: wanted, reportInput: true });
  if (result.success) return { value: result.data };
  const problems = result.error.issues.flatMap((issue): Problem[] => {
    if (issue.code !== 'unrecognized_keys') return [problemAt(place, issue.path, sentence(issue))];
    const known = issue.message.split(' ').filter((key) => key !== '');
    return issue.keys.map((key) =>
      problemAt(place, [...issue.path, key], { kind: 'unknown', message: `unknown key${suggestion(key, known)}` }),
    );
  });
  return { problems };
}
