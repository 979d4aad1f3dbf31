// What dockerd does to the packet filter of this machine and never undoes: chains of its own, rules that lead there, the
// policy of FORWARD (DROP, which stops other containers and virtual machines), forwarding itself. Taken before, given back.
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { asRoot } from './as-root.ts';

const run = promisify(execFile);
const forwarding = '/proc/sys/net/ipv4/ip_forward';
const families = ['iptables', 'ip6tables'];

export interface Firewall {
  restore(): Promise<void>;
}

export async function takeFirewall(): Promise<Firewall> {
  const before = new Map<string, string>();
  for (const family of families) before.set(family, await firewallRules(family));
  const forwarded = (await readFile(forwarding, 'utf8')).trim();
  return {
    restore: async () => {
      for (const [family, rules] of before) {
        const script = undoing(rules, await firewallRules(family));
        if (script !== '') await fed(asRoot(`${family}-restore`, ['--noflush']), script);
      }
      if ((await readFile(forwarding, 'utf8')).trim() !== forwarded)
        await run(...asRoot('sysctl', ['-q', '-w', `net.ipv4.ip_forward=${forwarded}`]));
    },
  };
}

/** As iptables-save prints them. Empty where that family or its tool does not exist: then dockerd changes nothing there. */
export const firewallRules = async (family: string): Promise<string> =>
  run(...asRoot(`${family}-save`, [])).then(
    ({ stdout }) => stdout,
    () => '',
  );

async function fed([command, args]: readonly [string, string[]], input: string): Promise<void> {
  const running = run(command, args);
  running.child.stdin?.end(input);
  await running;
}

const ofDocker = /\bDOCKER\b|\bDOCKER-|\bdocker0\b|\bbr-[0-9a-f]{12}\b/;
const chainLine = /^:(\S+) (\S+)/;

/**
 * Input of `iptables-restore --noflush` that leads from the second state to the first, as far as Docker has brought it:
 * what others have changed meanwhile stays. Both are output of `iptables-save`.
 */
export function undoing(before: string, after: string): string {
  const formerly = tables(before);
  return [...tables(after)]
    .flatMap(([table, lines]) => {
      const former = formerly.get(table) ?? [];
      const added = lines.filter((line) => !former.includes(line) && ofDocker.test(line));
      const chains = added.flatMap((line) => chainLine.exec(line)?.[1] ?? []);
      const rules = added.filter((line) => line.startsWith('-A ') && !chains.includes(line.split(' ')[1] ?? ''));
      const steps = [
        ...policyBack(former, lines),
        ...rules.map((line) => `-D${line.slice(2)}`),
        ...chains.map((chain) => `-F ${chain}`),
        ...chains.map((chain) => `-X ${chain}`),
      ];
      return steps.length === 0 ? [] : [`*${table}`, ...steps, 'COMMIT', ''];
    })
    .join('\n');
}

/** A table that was not there accepted everything. */
function policyBack(former: readonly string[], lines: readonly string[]): string[] {
  const policy = (among: readonly string[]): string | undefined =>
    among.flatMap((line) => /^:FORWARD (\S+)/.exec(line)?.[1] ?? [])[0];
  const now = policy(lines);
  const was = policy(former) ?? 'ACCEPT';
  return now === undefined || now === was ? [] : [`:FORWARD ${was} [0:0]`];
}

/** Lines by table, counters of chains cut off. */
function tables(text: string): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  let lines: string[] = [];
  for (const line of text.split('\n')) {
    if (line.startsWith('*')) found.set(line.slice(1), (lines = []));
    else if (line.startsWith(':')) lines.push(line.replace(/ \[.*/, ''));
    else if (line.startsWith('-')) lines.push(line);
  }
  return found;
}
