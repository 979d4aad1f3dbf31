import { describe, expect, it } from 'vitest';
import { renderNode } from '../../lib/status/print.ts';
import { machine, tell } from './node.ts';

const pki = '/etc/kubernetes/pki';
const resolved = {
  ...machine(),
  flagsByFile: {
    [`${pki}/apiserver.crt`]: ['kube-apiserver --tls-cert-file'],
    [`${pki}/ca.crt`]: ['kube-apiserver --client-ca-file', 'kube-controller-manager --root-ca-file'],
  },
};

describe('the table of readers', () => {
  it('names by file the flags that name it, and leaves out what none names', () => {
    const text = renderNode(tell({}, { resolved }), { output: 'table' });
    expect(text).toMatch(
      new RegExp(
        [
          'READ +FILE +BY *',
          `apiserver +${pki}/apiserver.crt +kube-apiserver --tls-cert-file *`,
          `ca +${pki}/ca.crt +kube-apiserver --client-ca-file, kube-controller-manager --root-ca-file *`,
          '',
        ].join('\n'),
      ),
    );
    expect(text).not.toMatch(/^admin.conf +\/etc/m);
  });

  it('is not there where the flags of no component are known', () => {
    expect(renderNode(tell(), { output: 'table' })).not.toContain('READ');
  });
});
