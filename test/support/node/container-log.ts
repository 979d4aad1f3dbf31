// What containers of a machine have written, in the log format of the container runtime: one object in JSON a line.
import type { Node } from './node.ts';

export interface Logged {
  /** Below /var/log/pods. */
  readonly file: string;
  /** Milliseconds since the epoch, by the clock of who wrote it. */
  readonly at: number;
  readonly [field: string]: unknown;
}

/** Lines since then of the files that match, in the order of files. */
export async function containerLog(node: Node, files: string, since: number): Promise<readonly Logged[]> {
  const text = await node.sh(`cd /var/log/pods && grep -H "" ${files} || true`);
  return text.split('\n').flatMap((line): Logged[] => {
    const [, file, json] = /^([^:]+):\S+ \S+ \S (\{.*\})$/.exec(line) ?? [];
    if (file === undefined || json === undefined) return [];
    const { time, ...entry } = JSON.parse(json) as { readonly time: string };
    const at = Date.parse(time);
    return at >= since ? [{ ...entry, file, at }] : [];
  });
}
