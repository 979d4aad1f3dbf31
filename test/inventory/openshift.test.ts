// Host names that only the API of an OpenShift cluster tells.
import { describe, expect, it } from 'vitest';
import { namesOf, readNamesInApi, type Sight } from '../../lib/inventory/discover/openshift.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { withNames } from '../../lib/inventory/names-in-api.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';

const status = (value: unknown): Sight => ({ object: { status: value } });
const infrastructure = status({
  apiServerURL: 'https://API.example.com:6443',
  apiServerInternalURI: 'https://[fd00::1]:6443',
});
const network = status({ serviceNetwork: ['172.30.0.0/16', 'fd02::/112'] });

describe('namesOf()', () => {
  it('takes hosts of the load balancers and the first address of each network', () => {
    expect(namesOf(infrastructure, network)).toEqual({
      parameters: {
        externalLoadBalancerHostnames: { values: ['api.example.com'] },
        internalLoadBalancerHostnames: { values: ['fd00::1'] },
        serviceNetworkIPs: { values: ['172.30.0.1', 'fd02::1'] },
      },
      endpoints: { controlPlane: 'https://API.example.com:6443', internal: 'https://[fd00::1]:6443' },
      unread: 0,
    });
  });

  it.each([
    ['no status', { object: {} }, 'Infrastructure "cluster" (config.openshift.io) has no status.apiServerURL'],
    ['an empty URL', status({ apiServerURL: '' }), 'has no status.apiServerURL'],
    ['what is no URL', status({ apiServerURL: 'api' }), 'no address like "https://host:6443": "api"'],
    ['a number', status({ apiServerURL: 7 }), 'has no status.apiServerURL'],
    ['null', { object: null }, 'has no status.apiServerURL'],
  ])('names object and field for %s', (_title, sight, problem) => {
    const told = namesOf(sight, network).parameters.externalLoadBalancerHostnames;
    expect(told).toEqual({ problem: expect.stringContaining(problem) as unknown });
  });

  it.each([
    'https://api.example.com:6443\n',
    ' https://api.example.com:6443',
    'https:\\\\api.example.com:6443',
    'https://api.exa\tmple.com:6443',
    'http://api.example.com:6443',
    'ftp://api.example.com',
    'https://user:pass@api.example.com:6443',
    'https://*.example.com:6443',
    'https://%61pi.example.com:6443',
    'https://0x7f.1:6443',
  ])('takes no address of %j', (url) => {
    const { endpoints, parameters } = namesOf(status({ apiServerURL: url }), network);
    expect(endpoints).not.toHaveProperty('controlPlane');
    const problem: unknown = expect.stringContaining(`status.apiServerURL names no host, or`);
    expect(parameters.externalLoadBalancerHostnames).toEqual({ problem });
  });

  it.each(['https://api.example.com', 'https://api.example.com:443', 'https://api.example.com:6443/'])(
    'takes %s to the letter',
    (url) => {
      const { endpoints, parameters } = namesOf(status({ apiServerURL: url }), network);
      expect(endpoints.controlPlane).toBe(url);
      expect(parameters.externalLoadBalancerHostnames).toEqual({ values: ['api.example.com'] });
    },
  );

  it.each([
    ['no CIDR', [], 'Network "cluster" (config.openshift.io) status.serviceNetwork has no entry'],
    ['one that is none', ['172.30.0.0/16', '10.0.0.0'], 'has an entry that is no network: "10.0.0.0"'],
    ['no list', '172.30.0.0/16', 'status.serviceNetwork has no entry'],
    ['a number', [7], 'has an entry that is no network: 7'],
  ])('knows no address with %s', (_title, serviceNetwork, problem) => {
    const told = namesOf(infrastructure, status({ serviceNetwork })).parameters.serviceNetworkIPs;
    expect(told).toEqual({ problem: expect.stringContaining(problem) as unknown });
  });
});

describe('readNamesInApi()', () => {
  const answering = (code: 'KubeNotFound' | 'KubeForbidden'): Pick<KubeConnection, 'request'> => ({
    request: () => Promise.reject(new RecoveryError(code, 'the server says no')),
  });

  it.each([
    ['KubeNotFound', 'does not exist', 0],
    ['KubeForbidden', 'could not be read: the server says no', 2],
  ] as const)('tells a reason for %s, and never throws', async (code, problem, unread) => {
    const names = await readNamesInApi(answering(code) as KubeConnection, AbortSignal.timeout(1000));
    expect(names.parameters.serviceNetworkIPs).toEqual({
      problem: `Network "cluster" (config.openshift.io) ${problem}`,
    });
    expect(names).toMatchObject({ unread, endpoints: {} });
  });
});

describe('withNames()', () => {
  const inventory = loadPreset('openshift-kube-apiserver');
  const resolved = resolve(inventory, {});
  const target = (name: string, in_ = resolved) => in_.artefacts.find((row) => row.name === name);

  it('adds the names to the rows that ask for them, sorted, in the same places', () => {
    const named = withNames(resolved, namesOf(infrastructure, network));
    const row = target('service-network-serving-certkey', named);
    expect(row).toMatchObject({
      hostnames: expect.arrayContaining(['172.30.0.1', 'fd02::1', 'kubernetes']) as unknown,
    });
    expect(row).not.toHaveProperty('namesUnknown');
    expect(row?.location).toBe(target('service-network-serving-certkey')?.location);
    const { hostnames = [] } = row as { readonly hostnames?: readonly string[] };
    expect(hostnames).toEqual(hostnames.toSorted());
    expect(target('localhost-serving-cert-certkey', named)).toBe(target('localhost-serving-cert-certkey'));
  });

  it('says why names are not known, and keeps those that are declared', () => {
    const named = withNames(resolved, namesOf(infrastructure, status({})));
    expect(target('service-network-serving-certkey', named)).toMatchObject({
      namesUnknown: 'Network "cluster" (config.openshift.io) status.serviceNetwork has no entry',
      hostnames: expect.arrayContaining(['kubernetes.default.svc']) as unknown,
    });
    expect(target('external-loadbalancer-serving-certkey', named)).toMatchObject({ hostnames: ['api.example.com'] });
  });

  it('asks for nothing that is configured', () => {
    const given = resolve(inventory, { parameters: { externalLoadBalancerHostnames: ['given.example.com'] } });
    const named = withNames(given, namesOf(infrastructure, network));
    expect(target('external-loadbalancer-serving-certkey', named)).toMatchObject({ hostnames: ['given.example.com'] });
  });
});
