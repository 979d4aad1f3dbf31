// Holds docs/pictures against the program: each line is one that it prints today, but for dates and numbers. The same of a
// real node is in test/e2e/systemd.test.ts.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { armingOf } from '../../lib/install/arming.ts';
import { manifestText } from '../../lib/install/apply.ts';
import { renderHost, serviceName, timerName, unitPaths } from '../../lib/install/host.ts';
import { settingLines } from '../../lib/install/installed-flags.ts';
import { hostManifests } from '../../lib/install/rbac.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { installedLines, unitLines, waitedLines } from '../../lib/status/installed-text.ts';
import { renderNode } from '../../lib/status/print.ts';
import { linesIn, type Picture, terminal, titles } from '../../scripts/pictures.ts';
import { leaf, machine, tell } from '../status/node.ts';
import { present } from '../support/facts.ts';
import { comparable } from '../support/lines.ts';
import { page, root } from './markdown.ts';

const pictures = Object.keys(titles) as Picture[];
const svgOf = (picture: Picture): string => readFileSync(`${root}docs/pictures/${picture}.svg`, 'utf8');
const commandOf = (picture: Picture): string => />#? ?(kube-cert-recovery [^<]*)</.exec(svgOf(picture))?.[1] ?? '';

const before = ['kubelet.service'];
const asked = { before, hasRights: true, hasClock: true };
const absent = unitPaths().map((path) => ({ path, state: 'absent' as const }));
const unarmed = armingOf({ ...asked, files: absent, loaded: 'none' }, 'Run: kube-cert-recovery init host');
const loaded = new Map([
  [timerName, 'UnitFileState=enabled\nActiveState=active\n'],
  [serviceName, 'LoadState=loaded\nExecStart=/x\n'],
  ['kubelet.service', 'ExecStartPre=/x\n'],
]);
const armed = armingOf({ ...asked, files: [], program: { path: '/x' }, loaded }, '');

const targets = machine().artefacts.flatMap((one) => (one.kind === 'target' ? [one] : []));
const ended = targets.map(({ name, issuer = 'ca' }) => {
  return [name, { ...present(leaf(name, issuer, -0.05)), authorities: [issuer] }] as const;
});
const dead = tell(Object.fromEntries(ended), unarmed);
/** The kubelet has made its serving certificate a little earlier. */
const alive = tell({ 'kubelet-server': present(leaf('kubelet-server', undefined, 299.9)) }, armed);
const rendered = renderHost({ executable: '/x', flags: [], writable: [], manifests: [] });
const units = rendered.map((unit) => ({ ...unit, isChanged: true }));
const printed: Readonly<Record<Picture, readonly string[]>> = {
  'dead-node': renderNode(dead, { output: 'table' }).split('\n'),
  'recovered-node': renderNode(alive, { output: 'table' }).split('\n'),
  recovery: [
    'Wrote /opt/kube-cert-recovery/bin/0.1.0-HASH/kube-cert-recovery, copied from /opt/kube-cert-recovery/dist/kube-cert-recovery',
    ...unitLines(units, false),
    ...settingLines([], []),
    ...hostManifests({ inventory: loadPreset('kubeadm'), renewsAhead: false }).map(
      (one) => `Created ${manifestText(one)}`,
    ),
    ...installedLines(alive),
    ...waitedLines(dead, alive, { hasNode: true, isReady: true, tookMs: 9000 }),
  ],
};

describe.each(pictures)('docs/pictures/%s.svg', (picture) => {
  it('is drawn from its lines', () => {
    const uncoloured = svgOf(picture).replaceAll(/ style="fill:[^"]*"/g, '');
    expect(uncoloured).toBe(terminal(titles[picture], commandOf(picture), linesIn(picture)));
  });

  it('has lines that the program prints today', () => {
    const today = new Set(['...', ...comparable(printed[picture])]);
    expect(comparable(linesIn(picture)).filter((line) => !today.has(line))).toEqual([]);
  });

  it('is shown on a page, with its title instead where it cannot be seen', () => {
    const pages = ['README.md', 'docs/status.md'].map(page).join('\n').replaceAll(/\s+/g, ' ');
    expect(pages).toMatch(new RegExp(String.raw`!\[[^\]]{30,}\]\((docs/)?pictures/${picture}\.svg\)`));
  });
});
