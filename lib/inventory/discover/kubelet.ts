// The files of a kubelet, for a machine without the key of the CA: kubelet.conf names its client certificate, its key and
// the CA of the API server, the configuration of the kubelet the CA of its clients. Impure: it reads files, and nothing
// else.
import { realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { readKubeconfigView, type Source } from '../../kubeconfig/document.ts';
import { byHandAdvice } from '../../next-command.ts';
import { allDirectories } from '../places.ts';
import type { Inventory } from '../model.ts';
import type { Environment } from '../resolve.ts';
import { withConfiguration } from './component-settings.ts';
import { type Discovered, readerBelow } from './machine-files.ts';

export async function environmentOfKubelet(inventory: Inventory, given: Environment, root = '/'): Promise<Discovered> {
  const { kubernetesDir = '', pkiDir = '', kubeletDir = '' } = allDirectories(inventory, given.directories ?? {});
  const conf = join(kubernetesDir, 'kubelet.conf');
  const { text, unread: notes } = readerBelow(root);
  const document = await text(conf);
  const view = document === undefined ? undefined : readKubeconfigView(conf, Buffer.from(document), {});
  const cannot = (problem: string) => {
    const message = `Cannot renew the kubelet's certificate: kubeconfig "${conf}" ${problem}`;
    const settings = { component: 'kubelet', scope: 'settings', file: conf, message } as const;
    return { files: { clientFile: null }, unread: [settings] };
  };
  // Nothing says whose CA lies at the usual path.
  const withoutCas = ({ files, ...rest }: ReturnType<typeof cannot>): Environment => ({
    ...rest,
    files: { ...files, clientCaFile: null },
  });
  const file = join(kubeletDir, 'config.yaml');
  const configuration = { flag: 'config', file, documents: [(await text(file)) ?? ''] };
  const clientCaFile = withConfiguration('kubelet', new Map(), configuration).get('client-ca-file')?.at(-1);
  const found = async (): Promise<Environment> => {
    if (view === undefined) return withoutCas(cannot(`is absent or cannot be read; ${byHandAdvice()}`));
    if ('problem' in view) return withoutCas(cannot(`cannot be used, ${view.problem}; ${byHandAdvice()}`));
    if ('foreign' in view) return withoutCas(cannot(`is not that of a kubelet with a certificate, ${view.foreign}`));
    const { certificate, key, authority } = view;
    const serverCaFile = authority.kind === 'file' ? authority.file : undefined;
    const clients = clientCaFile ?? join(pkiDir, 'ca.crt');
    const files = {
      ...(serverCaFile !== undefined && { serverCaFile }),
      // One file for both purposes is one entry: the CA of the API server.
      clientCaFile: clients === serverCaFile ? null : clients,
    };
    const pair = await pairOf(certificate, key);
    const { files: none, unread } = cannot(embedded);
    return pair === undefined ? { files: { ...files, ...none }, unread } : { files: { ...files, ...pair } };
  };
  const { files, unread } = await found();
  return {
    environment: { ...given, files: { ...files, ...given.files }, ...(unread !== undefined && { unread }) },
    notes,
  };
}

const usualFile = '/var/lib/kubelet/pki/kubelet-client-current.pem';
const embedded =
  `holds certificate or key in itself, and a kubelet renews files only; put them into "${usualFile}" and name that in ` +
  'client-certificate and client-key, as kubeadm does';

/** Compared by real path, as a link to a dated file has a name of its own. */
async function pairOf(certificate: Source, key: Source): Promise<Environment['files']> {
  if (certificate.kind !== 'file' || key.kind !== 'file') return undefined;
  const [real, realOfKey] = await Promise.all([certificate, key].map(({ file }) => realpath(file).catch(() => file)));
  if (real === realOfKey) return { clientFile: certificate.file };
  return { clientFile: null, clientCertFile: certificate.file, clientKeyFile: key.file };
}
