// The PKI that a test control plane brings when it is given none: every pair in a directory of its own, so that a
// test can replace one by rename. The authorities are apart from each other, as a careful installation has them.
import { writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createAuthority, createKeyPair, createLeaf, type Pair } from '../certificates/certificates.ts';
import { advertiseAddress, serviceAddress } from './components.ts';

export interface OwnPki {
  readonly directory: string;
  /** Signs the kube-apiserver's serving certificate and all clients. */
  readonly clusterCa: Pair;
  readonly etcdCa: Pair;
  readonly aggregatorCa: Pair;
  /** Signs the certificate for the name localhost-recovery, nothing else. */
  readonly recoveryCa: Pair;
  readonly etcdServer: Pair;
  readonly etcdPeer: Pair;
  readonly etcdClient: Pair;
  readonly serving: Pair;
  readonly localhostRecovery: Pair;
  readonly kubeletClient: Pair;
  readonly aggregatorClient: Pair;
  readonly controllerManagerClient: Pair;
  readonly schedulerClient: Pair;
  readonly sampleServing: Pair;
  readonly serviceAccount: { readonly key: string; readonly publicKey: string };
  /** Both CAs that a client of any name of the API server may have to trust. */
  readonly trustBundle: string;
}

const localNames = { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1', '::1'] };

/** Paths of the PKI in `directory`; creates it when it is not there. */
export async function ensureOwnPki(directory: string): Promise<OwnPki> {
  const index = join(directory, 'pki.json');
  if (existsSync(index)) return JSON.parse(await readFile(index, 'utf8')) as OwnPki;
  const pki = await createOwnPki(directory);
  await writeFile(index, JSON.stringify(pki, undefined, 2));
  return pki;
}

async function createOwnPki(directory: string): Promise<OwnPki> {
  const at = (name: string): string => join(directory, name);
  const [clusterCa, etcdCa, aggregatorCa, recoveryCa, serviceAccount] = await Promise.all([
    createAuthority(at('cluster-ca'), { commonName: 'test-cluster-ca' }),
    createAuthority(at('etcd-ca'), { commonName: 'test-etcd-ca' }),
    createAuthority(at('aggregator-ca'), { commonName: 'test-aggregator-ca' }),
    createAuthority(at('recovery-ca'), { commonName: 'test-recovery-ca' }),
    createKeyPair(at('service-account')),
  ]);
  const server = ['serverAuth'] as const;
  const both = ['serverAuth', 'clientAuth'] as const;
  const client = (name: string, commonName: string, organization?: string): Promise<Pair> =>
    createLeaf(at(name), clusterCa, { commonName, ...(organization !== undefined && { organization }) });
  const apiNames = {
    dnsNames: ['localhost', 'kubernetes', 'kubernetes.default', 'kubernetes.default.svc'],
    ipAddresses: ['127.0.0.1', '::1', advertiseAddress, serviceAddress],
  };
  const leaves = await Promise.all([
    createLeaf(at('etcd-server'), etcdCa, { commonName: 'etcd', usages: both, ...localNames }),
    createLeaf(at('etcd-peer'), etcdCa, { commonName: 'etcd', usages: both, ...localNames }),
    createLeaf(at('etcd-client'), etcdCa, { commonName: 'kube-apiserver' }),
    createLeaf(at('serving'), clusterCa, { commonName: 'kube-apiserver', usages: server, ...apiNames }),
    createLeaf(at('localhost-recovery'), recoveryCa, {
      commonName: 'localhost-recovery',
      usages: server,
      dnsNames: ['localhost-recovery'],
    }),
    client('kubelet-client', 'system:kube-apiserver', 'system:masters'),
    createLeaf(at('aggregator-client'), aggregatorCa, { commonName: 'system:aggregator' }),
    client('kube-controller-manager', 'system:kube-controller-manager'),
    client('kube-scheduler', 'system:kube-scheduler'),
    createLeaf(at('sample-serving'), clusterCa, {
      commonName: 'sample-apiserver',
      usages: server,
      dnsNames: ['localhost', 'sample-apiserver.default.svc'],
      ipAddresses: ['127.0.0.1'],
    }),
  ]);
  const [etcdServer, etcdPeer, etcdClient, serving, localhostRecovery, kubeletClient] = leaves;
  const [, , , , , , aggregatorClient, controllerManagerClient, schedulerClient, sampleServing] = leaves;
  const trustBundle = at('trust-bundle.crt');
  const pems = await Promise.all([clusterCa, recoveryCa].map(({ cert }) => readFile(cert, 'utf8')));
  await writeFile(trustBundle, pems.join(''));
  return {
    directory,
    clusterCa,
    etcdCa,
    aggregatorCa,
    recoveryCa,
    etcdServer,
    etcdPeer,
    etcdClient,
    serving,
    localhostRecovery,
    kubeletClient,
    aggregatorClient,
    controllerManagerClient,
    schedulerClient,
    sampleServing,
    serviceAccount,
    trustBundle,
  };
}
