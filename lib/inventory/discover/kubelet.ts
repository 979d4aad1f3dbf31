// The files of a kubelet, for a machine without the key of the CA: kubelet.conf names its client certificate, its key and
// the CA of the API server, the configuration of the kubelet the CA of its clients. Impure: it reads files, and nothing
// else.
import { realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { readKubeconfigView, type Source } from '../../kubeconfig/document.ts';
import { byHandAdvice } from '../../next-command.ts';
import { allDirectories, allFiles } from '../places.ts';
import type { Inventory } from '../model.ts';
import type { Environment } from '../resolve.ts';
import { withConfiguration } from './component-settings.ts';
import { type Discovered, isOnMachine, readerBelow } from './machine-files.ts';
import { keyBeside } from './named-files.ts';

export async function environmentOfKubelet(inventory: Inventory, given: Environment, root = '/'): Promise<Discovered> {
  const directories = allDirectories(inventory, given.directories ?? {});
  const { kubernetesDir = '', pkiDir = '', kubeletDir = '' } = directories;
  const conf = join(kubernetesDir, 'kubelet.conf');
  const { text, unread: notes } = readerBelow(root);
  const hasInputs = inventory.artefacts.some((one) => one.kind === 'external' && one.inputs !== undefined);
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
      // One file for both purposes is one entry: the CA of the API server. With inputs for each it has both (namedHere).
      clientCaFile: clients === serverCaFile && !hasInputs ? null : clients,
    };
    const pair = await pairOf(certificate, key);
    const { files: none, unread } = cannot(embedded);
    return pair === undefined ? { files: { ...files, ...none }, unread } : { files: { ...files, ...pair } };
  };
  const { files, unread } = await found();
  const others = await absentFiles(allFiles(inventory, { directories }), root);
  const all = { ...others, ...files, ...given.files };
  const clients = all['clientCaFile'] ?? '';
  const isOfSigner = clients !== '' && (await isOnMachine(join(root, keyBeside(clients))));
  return {
    environment: {
      ...given,
      files: all,
      ...(isOfSigner && { signerFiles: [clients] }),
      ...(unread !== undefined && { unread }),
    },
    notes,
  };
}

/** Files of which neither kubelet.conf nor the kubelet's configuration tells, and which are not on this machine. */
async function absentFiles(usual: Readonly<Record<string, string | null>>, root: string) {
  const others = Object.entries(usual).filter(([name]) => name !== 'clientCaFile' && name !== 'clientFile');
  const each = others.map(async ([name, file]): Promise<readonly [string, null][]> =>
    file !== null && (await isOnMachine(join(root, file))) ? [] : [[name, null]],
  );
  return Object.fromEntries((await Promise.all(each)).flat());
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
