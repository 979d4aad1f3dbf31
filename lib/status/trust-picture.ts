// Who trusts whom, as a picture (SVG) that needs nothing else: components as boxes, credentials on the left, what is
// trusted on the right, and an arrow for each row, which begins at a line of its own. Pure.
import type { RelationRow } from '../trust/judge-relations.ts';
import { arrowsOf, labelOf, ownerOf, partIn } from './trust-graph.ts';

const lineHeight = 18;
/** Of a monospaced font of 12 pixels. */
const glyphWidth = 7.3;
const margin = 16;
/** Width in which arrows bend. */
const between = 240;

export function trustPicture({ at, rows }: { readonly at: Date; readonly rows: readonly RelationRow[] }): string {
  const arrows = grouped(arrowsOf(rows), ({ credential }) => credential.name);
  const shown = arrows.map(({ credential }) => credential.name);
  const trusted = [...new Set(grouped(arrows, ({ trust }) => trust.name).map(({ trust }) => trust.name))];
  const labels = arrows.map((row) => `${labelOf(row)}${row.isFirst ? ', breaks first' : ''}`);
  const left = column(shown, margin);
  const [begin, bend] = [left.end + 8, left.end + 16 + widthOf(labels)];
  const right = column(trusted, bend + between);
  const drawn = arrows.map(({ id, credential, trust, verdict, reason, isFirst }, index) => {
    const [label = '', y = 0, to = 0] = [labels[index], left.ys[index], right.ys[trusted.indexOf(trust.name)]];
    const [x, tip] = [bend + between / 2, bend + between - 2];
    return (
      `<g class="${isFirst ? 'first' : verdict}" data-relation="${id}">` +
      `<title>${escapedXml(`${credential.name} must verify against ${trust.name}. ${reason}`)}</title>` +
      `<text x="${begin}" y="${y + 4}">${escapedXml(label)}</text>` +
      `<path d="M${begin + widthOf([label]) + 6} ${y}H${bend}C${x} ${y} ${x} ${to} ${tip - 8} ${to}"/>` +
      `<path class="tip" d="M${tip} ${to}l-8 -4v8z"/></g>`
    );
  });
  const [width, height] = [right.end + margin, Math.max(left.bottom, right.bottom)];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`,
    `<style>${style}</style><rect width="100%" height="100%" fill="#fff"/>`,
    `<text class="owner" x="${margin}" y="20">Credentials, and by what each must be trusted, at ${at.toISOString()}</text>`,
    `<text x="${margin}" y="38">orange: breaks first; red: broken; dotted: not known</text>`,
    ...left.svg,
    ...right.svg,
    ...drawn,
    '</svg>\n',
  ].join('\n');
}

const style =
  'text{font:12px monospace}.owner{font-weight:bold}.box{fill:#f4f6f8;stroke:#789}path{fill:none;stroke:#567}' +
  '.tip{fill:#567}.first path{stroke:#d60;stroke-width:3}.first .tip{fill:#d60}.first text{fill:#b40;font-weight:bold}' +
  '.fails path{stroke:#c00;stroke-width:2}.fails .tip{fill:#c00}.fails text{fill:#c00;font-weight:bold}' +
  '.unknown path{stroke:#888;stroke-dasharray:3}.unknown text{fill:#666}';

/** In the order of their first ones, what has one owner together, and what has one name. */
const grouped = <T>(all: readonly T[], nameOf: (one: T) => string): readonly T[] =>
  [...Map.groupBy(all, (one) => ownerOf(nameOf(one))).values()].flatMap((of) =>
    [...Map.groupBy(of, nameOf).values()].flat(),
  );

/** A box for each owner, with a line for each name. `ys`: the middle of each line. */
function column(names: readonly string[], x: number) {
  const width = widthOf(names.flatMap((name) => [ownerOf(name), partIn(name)])) + 16;
  const ys: number[] = [];
  let bottom = 50;
  const svg = [...Map.groupBy(names, ownerOf)].map(([owner, all]) => {
    const top = bottom;
    const lines = all.map((name, index) => {
      const y = top + lineHeight * (index + 1.5) + 4;
      ys.push(y);
      return name === all[index - 1] ? '' : `<text x="${x + 8}" y="${y + 4}">${escapedXml(partIn(name))}</text>`;
    });
    const height = lineHeight * (all.length + 1) + 8;
    bottom += height + 12;
    const box = `<rect class="box" x="${x}" y="${top}" width="${width}" height="${height}" rx="4"/>`;
    return `${box}<text class="owner" x="${x + 8}" y="${top + 17}">${escapedXml(owner)}</text>${lines.join('')}`;
  });
  return { svg, ys, end: x + width, bottom };
}

const widthOf = (texts: readonly string[]): number =>
  Math.ceil(Math.max(0, ...texts.map(({ length }) => length)) * glyphWidth);

/** Characters that XML 1.0 cannot have are replaced. */
export const escapedXml = (text: string): string =>
  text
    .replaceAll(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '\ufffd')
    .replaceAll(/[&<>"]/g, (one) => `&#${one.charCodeAt(0)};`);
