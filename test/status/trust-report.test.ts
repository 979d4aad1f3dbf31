import { describe, expect, it } from 'vitest';
import { exitOfTrust } from '../../cmd/exit-codes.ts';
import { renderTrust, trustNotes, type TrustReport } from '../../lib/status/trust-report.ts';
import { judgeRelations } from '../../lib/trust/judge-relations.ts';
import { relations } from '../../lib/trust/relations.ts';
import { day, now } from '../pki/authority.ts';
import { type Changes, machine, stranger } from '../trust/machine.ts';
import { parseYaml } from '../../lib/yaml.ts';

const report = (changes: Changes = {}, at = now): TrustReport => ({
  at,
  rows: judgeRelations(relations, machine(changes), at),
  notes: [],
});
const broken: Changes = { flags: { 'kube-controller-manager': { 'root-ca-file': '/pki/stranger.crt' } } };
/** As on a machine that is no node. */
const nowhere: TrustReport = {
  at: now,
  rows: report().rows.map(({ id, credential, trust, breaks, seen }) => {
    return { id, credential, trust, breaks, seen, verdict: 'notApplicable', reason: 'not here' };
  }),
  notes: [],
};
/** As with a kubeconfig alone: only what the API publishes is verified. */
const afar = (verdict: 'holds' | 'fails'): TrustReport => ({
  ...nowhere,
  isNode: false,
  rows: nowhere.rows.map((row) => (row.id === 'R16' ? { ...row, verdict, reason: 'met' } : row)),
});
const unread: Changes = { files: { '/pki/etcd-ca.crt': undefined } };

const lastLine = (one: TrustReport): string => renderTrust(one, 'table').trimEnd().split('\n').at(-1) ?? '';

describe('renderTrust()', () => {
  it('has a row for each pair, and says why one does not hold and what breaks', () => {
    const text = renderTrust(report(broken), 'table');
    expect(text).toMatch(/^RELATION +CREDENTIAL +TRUST +VERDICT +BREAKS FROM$/m);
    expect(text).toMatch(/^R9 +kube-apiserver --tls-cert-file +scheduler\.conf +holds +Dec 18, 2026 12:00 UTC$/m);
    expect(text).toMatch(/^R8 +kube-apiserver --tls-cert-file +kube-controller-manager --root-ca-file +FAILS +$/m);
    expect(text).toMatch(/^R8 .* FAILS +certificate "CN=it" .*, so Pods refuse the API server \(kube-root-ca\.crt\)$/m);
  });

  it.each<readonly [string, TrustReport, number, RegExp]>([
    [
      'everything holds',
      report(),
      0,
      /^Everybody trusts whom they must; R8 breaks first, .*\. Nothing is to be done\.$/,
    ],
    ['something fails', report(broken), 3, /^Broken: R8\. Next: run "kube-cert-recovery status", which says /],
    ['something is not known', report(unread), 1, /^Not known: R11, R12, R13\. Next: make readable /],
    ['both', report({ ...broken, ...unread }), 1, /^Broken: R8\. Not known: R11, R12, R13\. Next: /],
    ['nothing was verified', nowhere, 1, /^Nothing was verified: .* Next: run this on a node, or say where /],
    [
      'only what the API knows was verified',
      afar('holds'),
      0,
      /^Verified from here: 1 of 16 relations, which hold\. Next: run this on a node, which the others need\.$/,
    ],
    ['that fails', afar('fails'), 3, /^Broken: R16\. Next: /],
    ['something is ending', report({}, day(170)), 4, /^Everybody trusts whom they must; R8 .*\. Next: run /],
  ])('says in its last line what to do where %s, and exits accordingly', (_title, one, exit, line) => {
    expect(lastLine(one)).toMatch(line);
    expect(exitOfTrust(one)).toBe(exit);
  });

  it('prints notes', () => {
    expect(renderTrust({ ...report(), notes: ['"/x" could not be read'] }, 'table')).toContain(
      'Notes:\n  "/x" could not be read\n',
    );
  });

  it('has the same in JSON and YAML, without key material', () => {
    const json = renderTrust(report(broken), 'json');
    expect(parseYaml(renderTrust(report(broken), 'yaml'))).toEqual(JSON.parse(json));
    expect(JSON.parse(json)).toMatchObject({ kind: 'TrustInfo', status: 'broken', at: '2026-06-01T12:00:00Z' });
    expect(json).not.toContain('PRIVATE');
    expect(json).not.toContain(stranger.keyPem.slice(40, 80));
  });

  it('draws an arrow for each pair of parties; the first to break is thick, a broken one red', () => {
    const lines = renderTrust(report(broken), 'mermaid').split('\n');
    expect(lines[0]).toBe('flowchart LR');
    const edges = lines.filter((line) => /^ {2}n\d+ (?:-->|==>|-\.->)\|"[^"|]+"\| n\d+$/.test(line));
    const rows = report(broken).rows.filter(
      ({ id, verdict }) => verdict !== 'notApplicable' && id !== 'R14' && id !== 'R15',
    );
    expect(edges).toHaveLength(rows.length);
    expect(edges.filter((line) => line.includes('==>'))).toEqual([expect.stringMatching(/"R\d+ until 2026-12-18"/)]);
    const red = edges.findIndex((line) => line.includes('-.->|"R8 fails"'));
    expect(lines).toContain(`  linkStyle ${red} stroke:red`);
    const named = new Set(edges.flatMap((line) => line.match(/n\d+/g) ?? []));
    for (const node of named)
      expect(
        lines.some((line) => line.startsWith(`    ${node}["`)),
        node,
      ).toBe(true);
  });

  it('draws keys of one party where they do not match', () => {
    const graph = renderTrust(report({ files: { '/pki/ca.key': stranger.keyPem } }), 'mermaid');
    expect(graph).toContain('"R14 fails"');
    expect(graph).not.toContain('"R15');
  });
});

describe('trustNotes()', () => {
  it('names the worst relation alone, and where the rest is', () => {
    expect(trustNotes(report().rows)).toEqual([]);
    expect(trustNotes(report(unread).rows)).toEqual([]);
    const late = day(9000);
    expect(report({}, late).rows.filter(({ verdict }) => verdict === 'fails').length).toBeGreaterThan(9);
    expect(trustNotes(report({}, late).rows)).toEqual([]); // expired, and nothing else
    expect(trustNotes(report(broken, late).rows)).toEqual([expect.stringContaining('(R8)')]);
    expect(trustNotes(report(broken).rows)).toEqual([
      expect.stringMatching(
        /^kube-apiserver --tls-cert-file does not verify against kube-controller-manager --root-ca-file \(R8\): .*, so Pods refuse .*\. "kube-cert-recovery verify" shows /,
      ),
    ]);
    expect(
      trustNotes(
        report({ flags: { kubelet: { 'client-ca-file': '' } }, files: { '/pki/ca.key': stranger.keyPem } }).rows,
      ),
    ).toEqual([expect.stringContaining('(and 1 more like this)')]);
  });
});
