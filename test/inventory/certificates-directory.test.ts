import { describe, expect, it } from 'vitest';
import { type NamedFiles, shownDirectory } from '../../lib/inventory/discover/named-files.ts';

const by = (flag: string) => ({ description: flag, namedBy: { component: 'kube-apiserver', flag } });
const declared = {
  ca: { ...by('client-ca-file'), default: '{pkiDir}/ca.crt' },
  caKey: { description: 'its key', keyOf: 'ca', default: '{pkiDir}/ca.key' },
  serving: { ...by('tls-cert-file'), default: '{pkiDir}/apiserver.crt' },
  etcdCa: { ...by('trusted-ca-file'), default: '{pkiDir}/etcd/ca.crt' },
  etcdCaKey: { description: 'its key', keyOf: 'etcdCa', default: '{pkiDir}/etcd/ca.key' },
  etcdServer: { ...by('cert-file'), default: '{pkiDir}/etcd/server.crt' },
  external: by('etcd-certfile'),
  scheduler: { ...by('kubeconfig'), default: '{kubernetesDir}/scheduler.conf' },
};

describe('shownDirectory()', () => {
  it.each<readonly [string, NamedFiles, string | undefined]>([
    ['that of a CA and a certificate beside it', { ca: '/s/ca.crt', serving: '/s/apiserver.crt' }, '/s'],
    [
      'that of etcd, where only its manifest is there',
      { etcdCa: '/s/etcd/ca.crt', etcdServer: '/s/etcd/server.crt' },
      '/s',
    ],
    [
      'that of most',
      {
        ca: '/s/ca.crt',
        serving: '/s/apiserver.crt',
        etcdCa: '/s/etcd/ca.crt',
        etcdServer: '/other/etcd/server.crt',
      },
      '/s',
    ],
    ['none where a CA is alone', { ca: '/s/ca.crt', serving: '/custom/apiserver.crt' }, undefined],
    [
      'none where certificates are without a CA',
      { serving: '/s/apiserver.crt', etcdServer: '/s/etcd/server.crt' },
      undefined,
    ],
    ['none by files of other names', { ca: '/s/root.crt', serving: '/s/apiserver.crt' }, undefined],
    [
      'none by kubeconfigs, or by files without a usual place',
      { scheduler: '/s/scheduler.conf', external: '/s/c.crt' },
      undefined,
    ],
    ['none by a file that its component runs without', { ca: null, serving: '/s/apiserver.crt' }, undefined],
    ['none below /', { ca: '/ca.crt', serving: '/apiserver.crt' }, undefined],
    ['none without manifests', {}, undefined],
  ])('is %s', (_title, named, expected) => {
    expect(shownDirectory('pkiDir', declared, named)).toBe(expected);
  });
});
