import { describe, expect, it } from 'vitest';
import { componentServers } from '../../lib/inventory/discover/component-servers.ts';
import { allDirectories, allFiles } from '../../lib/inventory/places.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { kubeconfigOf } from '../support/certificates/kubeconfig.ts';
import { authority, leaf } from '../pki/authority.ts';

const ca = await authority();
const former = await authority();
const balancer = 'https://127.0.0.1:8443';
const own = await leaf(ca, { usage: 'client' });
const others = await leaf(former, { usage: 'client' });

const embedded = (pem: string): string =>
  kubeconfigOf({ server: balancer }, { 'client-certificate-data': Buffer.from(pem).toString('base64') });
const linked = kubeconfigOf({ server: balancer }, { 'client-certificate': '/var/lib/kubelet/pki/client.pem' });

const inventory = loadPreset('kubeadm');
const { artefacts } = inventory;
const directories = allDirectories(inventory, {});
const named = { caFile: '/ssl/ca.crt', caKeyFile: '/ssl/ca.key', schedulerKubeconfig: '/etc/kubernetes/own.conf' };
const places = { directories, files: allFiles(inventory, { directories, files: named }) };
const serversOf = (files: Readonly<Record<string, string>>): Promise<readonly string[]> =>
  componentServers(artefacts, places, async (file) => ({ '/ssl/ca.crt': ca.certificate.pem, ...files })[file]).then(
    (servers) => servers.map(({ url }) => url),
  );

describe('componentServers()', () => {
  it.each<readonly [string, Readonly<Record<string, string>>, readonly string[]]>([
    ['the file that a flag names', { '/etc/kubernetes/own.conf': embedded(own.pem) }, [balancer]],
    [
      'a certificate in a file that it names',
      { '/etc/kubernetes/kubelet.conf': linked, '/var/lib/kubelet/pki/client.pem': own.pem },
      [balancer],
    ],
    ['a certificate of another CA of that name', { '/etc/kubernetes/own.conf': embedded(others.pem) }, []],
    ['a file of people', { '/etc/kubernetes/admin.conf': embedded(own.pem) }, []],
    ['a file that no flag names', { '/etc/kubernetes/scheduler.conf': embedded(own.pem) }, []],
    ['a certificate that is not there', { '/etc/kubernetes/kubelet.conf': linked }, []],
    ['a torn file', { '/etc/kubernetes/own.conf': embedded(own.pem).slice(0, 60) }, []],
    ['a torn CA', { '/ssl/ca.crt': 'torn', '/etc/kubernetes/own.conf': embedded(own.pem) }, []],
  ])('goes by %s', async (_title, files, expected) => {
    expect(await serversOf(files)).toEqual(expected);
  });
});
