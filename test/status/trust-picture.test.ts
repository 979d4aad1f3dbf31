import { transformSync } from 'esbuild';
import { describe, expect, it } from 'vitest';
import { renderTrust } from '../../lib/status/trust-report.ts';
import { judgeRelations, type RelationRow } from '../../lib/trust/judge-relations.ts';
import { relations } from '../../lib/trust/relations.ts';
import { day, now } from '../pki/authority.ts';
import { type Changes, holder, kubeconfig, machine, stranger } from '../trust/machine.ts';

const rowsOf = (changes: Changes = {}): readonly RelationRow[] => judgeRelations(relations, machine(changes), now);
const picture = (rows: readonly RelationRow[]): string => renderTrust({ at: now, rows, notes: [] }, 'svg');

/** The elements of a text that is well-formed XML, by the parser of JSX, which lets only bare ampersands pass. */
function elementsOf(svg: string): readonly string[] {
  expect(svg.replaceAll(/&(?:#\d+|\w+);/g, '')).not.toContain('&');
  // A style sheet has braces, which are expressions to that parser.
  const { code } = transformSync(svg.replace(/(?<=<style>)[^<]*/, ''), { loader: 'jsx', jsxFactory: 'element' });
  return [...code.matchAll(/element\("(\w+)"/g)].map(([, name = '']) => name);
}

/** Class and relation of each arrow. */
const arrowsIn = (svg: string): readonly (readonly [string, string])[] =>
  [...svg.matchAll(/<g class="(\w+)" data-relation="(\w+)">/g)].map(([, kind = '', id = '']) => [kind, id]);

/** Texts that are shown, without those that appear beside the pointer. */
const textsIn = (svg: string): readonly string[] =>
  [...svg.matchAll(/<text[^>]*>([^<]*)</g)].map(([, text = '']) => text);

describe('trustPicture()', () => {
  it('has an arrow for each relation, once, and is whole without another file', () => {
    const svg = picture(rowsOf());
    const drawn = rowsOf().filter(({ id, verdict }) => verdict !== 'notApplicable' && id !== 'R14' && id !== 'R15');
    const arrows = arrowsIn(svg);
    expect(arrows.map(([, id]) => id).toSorted()).toEqual(drawn.map(({ id }) => id).toSorted());
    const elements = elementsOf(svg);
    expect(elements[0]).toBe('svg');
    expect(elements.filter((name) => name === 'g')).toHaveLength(arrows.length);
    expect(elements.filter((name) => name === 'path')).toHaveLength(2 * arrows.length);
    expect(svg.replace('http://www.w3.org/2000/svg', '')).not.toMatch(/https?:|href|url\(|<script/);
  });

  it('marks the arrow that breaks first with its date, and those that are broken or not known', () => {
    const flags = { 'kube-controller-manager': { 'root-ca-file': '/pki/stranger.crt' } };
    const svg = picture(rowsOf({ flags, files: { '/pki/etcd-ca.crt': undefined } }));
    const ids = (kind: string): readonly string[] => arrowsIn(svg).flatMap(([one, id]) => (one === kind ? [id] : []));
    expect(ids('first')).toEqual(['R9']);
    expect(textsIn(svg)).toContain(`R9 until ${day(200).toISOString().slice(0, 10)}, breaks first`);
    expect(ids('fails')).toEqual(['R8']);
    expect(ids('unknown')).toEqual(['R12', 'R12', 'R13', 'R11'].toSorted());
    expect(svg).toMatch(/\.first path\{stroke:#d60/);
  });

  it('has a box for each component, with a line for each credential and each trust', () => {
    const texts = textsIn(picture(rowsOf()));
    for (const owner of ['kube-apiserver', 'kubelet', 'etcd', 'kubeconfigs', 'kube-controller-manager'])
      expect(texts.filter((text) => text === owner).length, owner).toBeGreaterThan(0);
    expect(texts.filter((text) => text === '--proxy-client-cert-file')).toHaveLength(1);
    expect(texts.filter((text) => text === '--client-ca-file')).toHaveLength(2); // of the kubelet, of kube-apiserver
  });

  it.each(['<x&">', "]]>'", 'a\u0000b\u001b[31m\ud800', '&amp; {x}'])('writes the name %j as text', (name) => {
    const [file, bundle] = [`/${name}`, `APIService "${name}" caBundle`];
    const bundles = [{ id: 'B3', name: bundle, server: `Service "${name}"`, hostname: name }] as const;
    const kubeconfigs = { [file]: kubeconfig({ client: holder, ca: stranger.pem }) };
    const svg = picture(rowsOf({ kubeconfigs, bundles, files: { [bundle]: name } }));
    const plain = picture(rowsOf({ kubeconfigs: { '/x': kubeconfigs[file] ?? '' }, bundles: [] }));
    expect(arrowsIn(svg)).toHaveLength(arrowsIn(plain).length + 1);
    expect(elementsOf(svg.replaceAll(/[{}]/g, '')).filter((one) => one === 'x')).toEqual([]);
    expect(svg).not.toMatch(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd]/);
    if (name.startsWith('<')) expect(textsIn(svg)).toContain('&#60;x&#38;&#34;&#62;');
  });

  it('is whole without any row', () => {
    expect(arrowsIn(picture([]))).toEqual([]);
    expect(elementsOf(picture([]))).toEqual(expect.arrayContaining(['svg', 'style', 'rect', 'text']));
  });
});
