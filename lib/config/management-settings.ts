// Places outside this machine, mostly in the management cluster: sources of pairs that the machine cannot make, because
// the key of their CA is elsewhere (`regen.sources`), Secrets that receive its own pairs (`regen.deliveries`), and its
// Machine (`regen.machine`). The administrator names each place, and so can audit it.
import * as z from 'zod';
import { directoryPath, namespaceName, objectName } from '../inventory/values.ts';

/** Object of another cluster, reached with that cluster's kubeconfig. */
const place = z.strictObject({ kubeconfig: directoryPath, namespace: namespaceName, name: objectName });

const secret = place.describe('A Secret of another cluster, with the entries tls.crt and tls.key');

/** Exactly one field must be set: checked with all other problems (mode-settings.ts). */
const source = z.strictObject({
  secret: secret.exactOptional(),
  pemPair: z
    .strictObject({ certFile: directoryPath, keyFile: directoryPath })
    .exactOptional()
    .describe('Two files of this machine, which somebody else brings'),
  command: z
    .tuple([directoryPath], z.string())
    .exactOptional()
    .describe('A program that prints the certificate and its key in PEM, with its arguments; it runs as root'),
});

export const sources = z
  .record(objectName, source)
  .default({})
  .describe('By target in files: where a single run finds a pair that ends later, when the one here ends');

export const deliveries = z
  .record(objectName, z.strictObject({ secret }))
  .default({})
  .describe(
    'By target in files: the Secret of another cluster into which a single run with restart puts it, when that one ends',
  );

export const machine = place
  .optional()
  .describe(
    'The Machine of this node in the management cluster of Cluster API: with restart, its annotation ' +
      'machine.cluster.x-k8s.io/certificates-expiry is kept at the end of what kube-apiserver serves',
  );

export type ManagementPlace = z.output<typeof place>;
export type PairSource = z.output<typeof source>;
export type PairDelivery = z.output<typeof deliveries>[string];
