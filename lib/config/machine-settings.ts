// The Machine of this node in a management cluster of Cluster API (`regen.machine`), whose annotation is kept true.
import * as z from 'zod';
import { directoryPath, namespaceName, objectName } from '../inventory/values.ts';

export const machine = z
  .strictObject({ kubeconfig: directoryPath, namespace: namespaceName, name: objectName })
  .optional()
  .describe(
    'The Machine of this node in the management cluster of Cluster API: with restart, its annotation ' +
      'machine.cluster.x-k8s.io/certificates-expiry is kept at the end of what kube-apiserver serves',
  );

export type MachinePlace = NonNullable<z.output<typeof machine>>;
