import { describe, expect, it } from 'vitest';
import { fileFlags } from '../../lib/inventory/file-flags.ts';
import { type FileOfFlag, withFlagEntries } from '../../lib/inventory/flag-entries.ts';

const named = (component: FileOfFlag['component'], flag: string, file: string): FileOfFlag => {
  const role = fileFlags[component][flag];
  if (role === undefined) throw new Error(`No flag "${flag}" of ${component} names a file`);
  return { component, flag, role, file };
};

describe('withFlagEntries()', () => {
  it('has a component restarted for a kubeconfig that it reads at its start', () => {
    const file = '/etc/kubernetes/scheduler-authentication.conf';
    const [entry] = withFlagEntries([], [named('kube-scheduler', 'authentication-kubeconfig', file)]);
    expect(entry).toMatchObject({
      name: 'kube-scheduler-authentication-kubeconfig',
      location: { kind: 'kubeconfig', file },
      readers: [{ component: 'kube-scheduler', needs: 'restart' }],
    });
  });

  it('has no kubelet restarted for the kubeconfig of its join', () => {
    const file = '/etc/kubernetes/bootstrap-kubelet.conf';
    const [entry] = withFlagEntries([], [named('kubelet', 'bootstrap-kubeconfig', file)]);
    expect(entry).toMatchObject({ presence: 'optional', readers: [{ component: 'kubelet', needs: 'nothing' }] });
  });
});
