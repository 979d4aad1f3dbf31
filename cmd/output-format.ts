// The flag --output, judged alike by every command that has it.
import { nearest, valueText } from '../lib/problems.ts';
import type { Problem } from '../lib/problems.ts';

/** The wanted format, or why there is none. */
export function outputFormat<T extends string>(
  output: string,
  formats: readonly T[],
): { readonly format: T } | { readonly format?: undefined; readonly problem: Problem } {
  const format = formats.find((one) => one === output);
  if (format !== undefined) return { format };
  const near = nearest(output, formats);
  const hint = near === undefined ? '' : ` (did you mean "${near}"?)`;
  const message = `must be one of ${formats.join(', ')}, got ${valueText(output)}${hint}`;
  return { problem: { path: '--output', kind: 'invalid', message } };
}
