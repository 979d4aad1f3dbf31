// Holds docs/status.md against what `status` of a kubeadm machine prints.
import { describe, expect, it } from 'vitest';
import { renderNode } from '../../lib/status/print.ts';
import { machine, tell } from '../status/node.ts';
import { day } from '../support/facts.ts';
import { firstCodes, page, section, tables } from './markdown.ts';

const text = page('docs/status.md');
const ahead = { beforeMs: 30 * day, signerBeforeMs: 365 * day, jitter: 0, warnOnly: false };
const apiServer = '/etc/kubernetes/pki/apiserver.crt';
const resolved = { ...machine(), flagsByFile: { [apiServer]: ['kube-apiserver --tls-cert-file'] } };
const info = JSON.parse(renderNode(tell({}, { ahead, resolved }), { output: 'json' })) as Record<
  string,
  readonly object[]
>;
const ofKubeadm = ['kind', 'apiVersion', 'certificates', 'certificateAuthorities'];
const ofKubeadmEntry = ['name', 'expirationDate', 'residualTime', 'externallyManaged', 'caName', 'missing'];

describe('docs/status.md', () => {
  it('has every key of an entry that kubeadm does not have', () => {
    const keys = new Set(
      ['certificates', 'nodeCertificates'].flatMap((list) => (info[list] ?? []).flatMap(Object.keys)),
    );
    expect(firstCodes(section(text, 'JSON and YAML')).toSorted()).toEqual(
      [...keys].filter((key) => !ofKubeadmEntry.includes(key)).toSorted(),
    );
  });

  it('has every key of the document that kubeadm does not have', () => {
    expect(tables(section(text, 'JSON and YAML'))).toHaveLength(2);
    expect(firstCodes(section(text, 'JSON and YAML'), 1).toSorted()).toEqual(
      Object.keys(info)
        .filter((key) => !ofKubeadm.includes(key))
        .toSorted(),
    );
  });

  it.each(['NODE CERTIFICATE', 'SERVED BY', 'STATE', 'WHAT WILL BE DONE', 'WHY', 'OTHER CA', '<unreadable>'])(
    'names what the tables hold: %s',
    (word) => {
      expect(text).toContain(`\`${word}\``);
      expect(page('lib/status/print.ts')).toContain(`'${word}'`);
    },
  );
});
