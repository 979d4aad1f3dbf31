import { describe, expect, it } from 'vitest';
import { decideEtcd } from '../../lib/inventory/discover/etcd.ts';

const environment = `# of etcdadm
ETCD_NAME=etcd-1
ETCD_LISTEN_CLIENT_URLS="https://192.0.2.1:2379,https://[2001:db8::1]:2379"
ETCD_ADVERTISE_CLIENT_URLS=https://etcd-1.example.com:2379
ETCD_LISTEN_PEER_URLS=https://0.0.0.0:2380
`;

describe('decideEtcd()', () => {
  it('takes name and hosts of the environment file', () => {
    expect(decideEtcd({ environment, certificates: [], hostname: 'other' }, {})).toEqual({
      memberName: ['etcd-1'],
      memberHostnames: ['192.0.2.1', '2001:db8::1', 'etcd-1.example.com'],
    });
  });

  it.each<readonly [string, string | undefined]>([
    ['nothing', undefined],
    ['garbage', '{{{ ETCD_NAME\nETCD_LISTEN_CLIENT_URLS=:::'],
    ['a name that is none', 'ETCD_NAME=a b'],
  ])('%s: the host name', (_title, text) => {
    const found = decideEtcd({ environment: text, certificates: ['garbage', undefined], hostname: 'Host-1\n' }, {});
    expect(found).toEqual({ memberName: ['host-1'], memberHostnames: [] });
  });

  it('believes the administrator before all files', () => {
    expect(decideEtcd({ environment, certificates: [] }, { memberName: ['mine'] })['memberName']).toEqual(['mine']);
  });
});
