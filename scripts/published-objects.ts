// The objects of OpenShift's presets as tables for people (docs/openshift.md). Pure but for the presets themselves.
import { durationText } from '../lib/duration.ts';
import type { Artefact, HostnameSource } from '../lib/inventory/model.ts';
import { isFile, isObject } from '../lib/inventory/places.ts';
import { loadPreset } from '../lib/inventory/preset.ts';

const presets = ['openshift-kube-apiserver', 'openshift-kube-controller-manager', 'openshift-kube-scheduler'] as const;

/** Markdown: a section for each preset, in it a table for each namespace. */
export function publishedObjects(): string {
  return presets.map((name) => [`### ${name}`, ...tablesOf(loadPreset(name).artefacts)].join('\n\n')).join('\n\n');
}

function tablesOf(artefacts: readonly Artefact[]): string[] {
  const spaces = artefacts.flatMap(({ location }) => (isObject(location) ? [location.namespace] : []));
  return [...new Set(spaces)].toSorted().map((namespace) => {
    const rows = artefacts.filter(({ location }) => isObject(location) && location.namespace === namespace);
    const lines = rows.map(
      (row) => `| ${[object(row), what(row), madeOf(row, artefacts), life(row), disk(row)].join(' | ')} |`,
    );
    return [
      `Namespace \`${namespace}\`:\n`,
      '| object | what | of | life | on disk |',
      '| - | - | - | - | - |',
      ...lines,
    ].join('\n');
  });
}

function object({ location }: Artefact): string {
  return isFile(location) ? '' : `${location.kind === 'secret' ? 'Secret' : 'ConfigMap'} \`${location.name}\``;
}

function what(row: Artefact): string {
  switch (row.kind) {
    case 'signer':
      return row.issuer === undefined ? 'CA' : `intermediate CA \`${row.commonName ?? row.name}_@…\``;
    case 'target':
      return row.usage === 'client' ? `client ${clientText(row)}` : `serves ${row.hostnames.map(nameText).join(', ')}`;
    case 'caBundle':
      return 'bundle of a CA and its former ones';
    case 'composedBundle':
      return 'bundle of bundles';
    case 'copy':
      return row.promoteAfter === undefined ? 'copy' : `copy, ${durationText(row.promoteAfter)} after its making`;
    case 'kubeconfigs':
      return `kubeconfigs of \`${row.user}\``;
    case 'keyPair':
      return 'key pair: checked';
    case 'external':
      return 'of others: only read';
    case 'opaque':
      return 'of others: only synced';
  }
}

const clientText = ({ commonName = '', organizations }: Artefact & { kind: 'target' }): string =>
  [`\`${commonName}\``, ...organizations.map((group) => `in \`${group}\``)].join(' ');
const nameText = (source: HostnameSource): string =>
  typeof source === 'string' ? `\`${source}\`` : `{${source.parameter}}`;

function madeOf(row: Artefact, artefacts: readonly Artefact[]): string {
  const names = [
    ...('issuer' in row && row.issuer !== undefined ? [row.issuer] : []),
    ...('signers' in row ? row.signers : []),
    ...('inputs' in row ? row.inputs : []),
    ...('of' in row ? [row.of] : []),
    ...(row.kind === 'kubeconfigs' ? [row.client, row.authority] : []),
  ];
  const placeOf = (name: string): string => {
    const location = artefacts.find((one) => one.name === name)?.location;
    if (location === undefined || !isObject(location) || !isObject(row.location)) return '';
    return location.namespace === row.location.namespace
      ? `\`${location.name}\``
      : `\`${location.namespace}/${location.name}\``;
  };
  return names.map(placeOf).join(', ');
}

const life = (row: Artefact): string =>
  row.kind === 'signer' || row.kind === 'target'
    ? `${durationText(row.validity)}, renewed after ${durationText(row.refresh)}`
    : '';

const disk = ({ published }: Artefact): string => published ?? '';
