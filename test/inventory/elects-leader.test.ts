import { describe, expect, it } from 'vitest';
import { electsLeader } from '../../lib/inventory/discover/documents.ts';
import { toYaml } from '../../lib/yaml.ts';

const scheduler = (...flags: readonly string[]): string =>
  toYaml({ spec: { containers: [{ name: 'kube-scheduler', command: ['kube-scheduler', ...flags] }] } });

describe('electsLeader()', () => {
  it.each([
    ['kubeadm', ['--leader-elect=true'], true],
    ['no flag', ['--kubeconfig=/k'], true],
    ['minikube', ['--leader-elect=false'], false],
    ['a value as Go writes it', ['--leader-elect=F'], false],
    ['the last of two', ['--leader-elect=false', '--leader-elect=1'], true],
    ['a flag without value', ['--leader-elect'], true],
    ['a garbled value', ['--leader-elect=off'], true],
  ])('goes by %s', (_title, flags, expected) => {
    expect(electsLeader(scheduler(...flags), 'kube-scheduler')).toBe(expected);
  });

  it('expects a Lease of a component without manifest', () => {
    expect(electsLeader('', 'kube-scheduler')).toBe(true);
  });
});
