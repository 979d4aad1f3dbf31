// Pictures for the documentation: terminals (SVG) with what the program prints on a real node of kubeadm, which dies and is
// brought back meanwhile. `npm run pictures` makes that node and writes them; tests compare their lines with the program.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { stripVTControlCharacters } from 'node:util';
import { escapedXml } from '../lib/status/trust-picture.ts';

const directory = new URL('../docs/pictures/', import.meta.url);

export const titles = {
  'dead-node': 'status on a node of kubeadm whose certificates have all expired',
  recovery: 'The same node, brought back by one command',
  'recovered-node': 'status on the same node afterwards',
} as const;
export type Picture = keyof typeof titles;

const [lineHeight, glyphWidth, margin] = [18, 7.3, 16];
/** Columns of the terminal. */
const wrapped = /.{1,120}/g;
/** SGR codes (ECMA-48) of the program, dark enough on white. */
const colours: Readonly<Record<string, string>> = { 31: '#b00020', 32: '#116329', 33: '#7a4f00' };
const style = 'text{font:12px monospace;fill:#1f2328;white-space:pre}.typed{font-weight:bold}';

/** Pure. A terminal on which `command` was typed: a <text> for each line, and for each further row of a long one. */
export function terminal(title: string, command: string, lines: readonly string[]): string {
  const all = [`# ${command}`, ...lines];
  const rows = all.flatMap((line, at) => {
    // oxlint-disable-next-line no-control-regex -- where a colour begins
    const colour = colours[/^\u001B\[(\d+)m/.exec(line)?.[1] ?? ''];
    const shown = at === 0 ? ' class="typed"' : colour === undefined ? '' : ` style="fill:${colour}"`;
    const [first = '', ...others] = stripVTControlCharacters(line).match(wrapped) ?? [];
    return [{ text: first, shown }, ...others.map((text) => ({ text, shown: `${shown} data-row="further"` }))];
  });
  const longest = Math.max(...rows.map(({ text }) => text.length));
  const [width, height] = [Math.ceil(longest * glyphWidth) + 2 * margin, rows.length * lineHeight + 2 * margin];
  const drawn = rows.map(({ text, shown }, at) => {
    const y = margin + lineHeight * at + 13;
    return `<text x="${margin}" y="${y}"${shown} xml:space="preserve">${escapedXml(text)}</text>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title said" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`,
    `<title id="title">${escapedXml(title)}</title>`,
    `<desc id="said">${escapedXml(all.slice(-3).map(stripVTControlCharacters).join(' '))}</desc>`,
    `<style>${style}</style><rect x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="6" fill="#fff" stroke="#8c959f"/>`,
    ...drawn,
    '</svg>\n',
  ].join('\n');
}

/** Pure. The first table of `status`, and its last lines. */
export function shortened(output: string): readonly string[] {
  const lines = linesOf(output);
  return [...lines.slice(0, lines.indexOf('')), '...', ...lines.slice(-3)];
}

/** Pure. Lines as a terminal has them at the end: without what was erased, and without spaces at their ends. */
export const linesOf = (output: string): readonly string[] =>
  output
    // oxlint-disable-next-line no-control-regex -- to the start of the line, which is erased
    .replaceAll(/[^\n]*\r\u001B\[K/g, '')
    .trimEnd()
    .split('\n')
    .map((line) => line.trimEnd());

/** Lines of a picture, without what was typed. */
export function linesIn(picture: Picture): readonly string[] {
  const svg = readFileSync(new URL(`${picture}.svg`, directory), 'utf8');
  const lines: string[] = [];
  for (const [, shown = '', text = ''] of svg.matchAll(/<text([^>]*)>([^<]*)<\/text>/g)) {
    const row = text.replaceAll(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)));
    if (shown.includes('data-row')) lines.push(`${lines.pop()}${row}`);
    else lines.push(row);
  }
  return lines.slice(1);
}

async function record(): Promise<void> {
  const { Cluster } = await import('../test/support/node/cluster.ts');
  const { askRecovery, askStatus, letDie } = await import('../test/support/node/recovery-session.ts');
  const { openWorkshop } = await import('../test/support/node/workshop.ts');
  await using opened = await openWorkshop();
  await using cluster = await Cluster.create(opened.workshop, { systemd: true });
  const { node } = cluster;
  await letDie(cluster);
  mkdirSync(directory, { recursive: true });
  for (const [picture, asked] of [
    ['dead-node', askStatus],
    ['recovery', askRecovery],
    ['recovered-node', askStatus],
  ] as const) {
    const { command, output } = await asked(node);
    const lines = picture === 'recovery' ? linesOf(output) : shortened(output);
    writeFileSync(new URL(`${picture}.svg`, directory), terminal(titles[picture], command, lines));
    console.log(`docs/pictures/${picture}.svg\n${lines.join('\n')}\n`);
  }
}

if (import.meta.main) await record();
