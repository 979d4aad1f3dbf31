// Durations as people write them in YAML: "30d", "12h", "10m", "5s", or several parts ("1h30m").

const partMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export const durationPattern = /^(?:\d+(?:ms|s|m|h|d))+$/;

/** Milliseconds, or undefined when `text` is no duration. */
export function parseDuration(text: string): number | undefined {
  if (!durationPattern.test(text)) return undefined;
  let total = 0;
  for (const [, amount = '', unit = ''] of text.matchAll(/(\d+)(ms|s|m|h|d)/g))
    total += Number(amount) * (partMs[unit] ?? 0);
  return Number.isSafeInteger(total) ? total : undefined;
}

/** The shortest text that parseDuration reads back: 5400000 is "1h30m". */
export function durationText(ms: number): string {
  let rest = ms;
  let text = '';
  for (const unit of ['d', 'h', 'm', 's', 'ms']) {
    const size = partMs[unit] ?? 1;
    const count = Math.floor(rest / size);
    if (count > 0) text += `${count}${unit}`;
    rest -= count * size;
  }
  return text === '' ? '0s' : text;
}
