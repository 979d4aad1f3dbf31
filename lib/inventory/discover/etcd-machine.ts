// Finds values on a machine of etcd that its inventory cannot have. Impure: it reads files, and nothing else; etcd.ts
// interprets them.
import { dirname, join } from 'node:path';
import { RecoveryError } from '../../errors.ts';
import { allDirectories } from '../located.ts';
import type { Inventory } from '../model.ts';
import type { Environment } from '../resolve.ts';
import { decideEtcd } from './etcd.ts';
import { isOnMachine, readerBelow } from './machine-files.ts';

/** Discovers an etcd. Throws PreconditionFailed on a machine that has no etcd of etcdadm. */
export async function discoverEtcd(
  inventory: Inventory,
  given: Environment,
  root = '/',
): Promise<{ readonly environment: Environment; readonly notes: readonly string[] }> {
  const { etcdPkiDir = '/etc/etcd/pki' } = allDirectories(inventory, given.directories ?? {});
  const pki = (name: string): string => join(etcdPkiDir, name);
  const signs = ['ca.crt', 'server.crt', 'peer.crt'].map(pki);
  const there = await Promise.all(signs.map((path) => isOnMachine(join(root, path))));
  if (!there.includes(true)) {
    const message =
      `Cannot find an etcd of etcdadm on this machine: there is no "${pki('ca.crt')}" and no certificate of a member ` +
      'beside it, so nothing is here to be recovered; run this on a machine of etcd, or say where the files are ' +
      '(directories.etcdPkiDir)';
    throw new RecoveryError('PreconditionFailed', message);
  }
  const { text, unread } = readerBelow(root);
  const parameters = decideEtcd(
    {
      // Next to pki/, at etcdadm's path (constants: EtcdEnvironmentFile). A static pod has none.
      environment: await text(join(dirname(etcdPkiDir), 'etcd.env')),
      certificates: [await text(pki('server.crt')), await text(pki('peer.crt'))],
      hostname: (await text('/proc/sys/kernel/hostname')) ?? (await text('/etc/hostname')),
    },
    given.parameters ?? {},
  );
  return { environment: { ...given, parameters }, notes: unread };
}
