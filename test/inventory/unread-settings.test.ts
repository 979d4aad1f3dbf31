// Settings that name a file in a way that cannot be followed: each is reported, and none is silently the default.
import { describe, expect, it } from 'vitest';
import { type ComponentSettings, valuesIn } from '../../lib/inventory/discover/component-settings.ts';
import { unreadSettings } from '../../lib/inventory/discover/files-of-flags.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { plan } from '../../lib/plan/plan.ts';

const source = '/etc/kubernetes/manifests/kube-apiserver.yaml';
const mounts = [
  { at: '/etc/kubernetes/pki', hostPath: '/etc/kubernetes/pki' },
  { at: '/scratch', hostPath: undefined },
];
const told = (words: readonly string[], more: Partial<ComponentSettings> = {}) =>
  unreadSettings({ 'kube-apiserver': { values: valuesIn(words), mounts, source, ...more } });

describe('unreadSettings()', () => {
  it.each([
    ['a variable', '--tls-cert-file=$(OWN)/tls.crt', 'has a variable'],
    ['a specifier', '--client-ca-file=%h/ca.crt', 'has a specifier'],
    ['a relative path', '--tls-private-key-file=etc/tls.key', 'is a relative path'],
    ['a volume of the pod', '--etcd-cafile=/scratch/ca.crt', 'lies in a volume of the pod'],
    ['a configuration', '--authorization-config=$DIR/a.yaml', 'has a variable'],
    ['the key of a name', '--tls-sni-cert-key=/a.crt,b.key:x.example', 'is a relative path'],
    ['one of many keys', '--service-account-key-file=$A --service-account-key-file=/b.pub', 'has a variable'],
  ])('reports %s', (_, words, why) => {
    const [flag = ''] = /^--[a-z-]+/.exec(words) ?? [];
    const [one, ...others] = told(words.split(' '));
    expect(others).toEqual([]);
    expect(one).toMatchObject({ component: 'kube-apiserver', file: source });
    expect(one?.message).toContain(`Cannot find the file of kube-apiserver ${flag} on this machine: "`);
    expect(one?.message).toContain(why);
    expect(one?.message).toContain(`in "${source}"`);
  });

  it.each([
    ['none', '--v=2'],
    ['an empty value', '--tls-cert-file='],
    ['an absolute path', '--tls-cert-file=/etc/kubernetes/pki/a.crt'],
    ['an earlier value, which does not count', '--tls-cert-file=$X --tls-cert-file=/a.crt'],
    ['a directory of its own that ends with the pod', '--cert-dir=/scratch/certs'],
    ['a file without certificates', '--audit-log-path=$LOGS/audit.log'],
  ])('reports nothing of %s', (_, words) => {
    expect(told(words.split(' '))).toEqual([]);
  });

  it('takes a relative path from the working directory', () => {
    expect(told(['--tls-cert-file=tls.crt'], { workingDirectory: '/etc/kubernetes' })).toEqual([]);
  });

  it('makes an entry that is always for a person to mend', () => {
    const unread = told(['--tls-cert-file=$(OWN)/tls.crt', '--tls-private-key-file=$(OWN)/tls.key']);
    const parameters = { nodeName: ['n'], advertiseAddress: ['192.0.2.1'] };
    const resolved = resolve(loadPreset('kubeadm'), { parameters, unread, mayLack: true });
    const now = new Date('2026-01-01T00:00:00Z');
    const { decisions } = plan({
      resolved,
      facts: new Map(),
      now,
      policy: { kind: 'OnlyWhenExpired', graceMs: 0, settleMs: 0 },
      clock: { builtAt: now, synchronised: true },
    });
    expect(decisions.find(({ artefact }) => artefact === 'kube-apiserver-settings')).toMatchObject({
      action: 'blocked',
      reason: 'NotOurs',
      byHand: true,
      message: unread[0]?.message,
    });
  });
});
