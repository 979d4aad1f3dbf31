// The inventory in its YAML form: presets, and the `inventory` of a configuration file; the types of model.ts are
// inferred from it. Strict: an unknown key is a problem. An `error` text names the wanted state. Relations between
// values are checked in check-values.ts and check-references.ts.
import * as z from 'zod';
import {
  duration,
  entryKey,
  followed,
  hostnameText,
  namespaceName,
  objectName,
  obtainedBy,
  parameterName,
  serverUrl,
  someText,
  unitName,
} from './values.ts';
import { finderNames, findersText } from './finders.ts';
import { locationSchema } from './location-kinds.ts';
import { directories, files } from './declared-files.ts';
import { flagOfComponent, flags, reader } from './reader.ts';
import { apiVersion } from '../well-known.ts';

// A pair or a CA below pki/ without its extension, or a kubeconfig.
const kubeadmFile = objectName.describe('Of kubeadm, without .crt, .key and .pub; with .conf a kubeconfig');

const base = {
  name: objectName.describe('Unique in the inventory'),
  location: locationSchema,
  when: z
    .enum(['stackedEtcd', 'externalEtcd', 'trustedAuthority', 'clusterAdmins'])
    .exactOptional()
    .describe(
      'Only on a machine that has this: stackedEtcd, an etcd of kubeadm beside the API server; externalEtcd, none of ' +
        "kubeadm's; trustedAuthority, a CA of kubeadm that its API server still trusts; clusterAdmins, a kubeadm that binds " +
        'the group kubeadm:cluster-admins. Needs `discover`',
    ),
  published: z
    .enum(['required', 'optional'])
    .exactOptional()
    .describe('Written to disk by the syncer; an optional one vanishes from disk when the object is gone'),
  readers: z.array(reader).default([]),
  flags: z
    .record(objectName, flags)
    .exactOptional()
    .describe('By component: the flags by which it is told of the files, wherever `init` writes its command line'),
  adoptedFrom: kubeadmFile
    .exactOptional()
    .describe('What an adoption begins it with, or of a bundle: whose every valid certificate it must hold'),
  givenBackTo: kubeadmFile
    .exactOptional()
    .describe('Of a bundle: the CA of kubeadm that must hold all of it before a machine is given back'),
  description: someText.exactOptional().describe("One sentence of what it is for, in OpenShift's TLS registry"),
};
const life = {
  // Certificates that recovery itself depends on must never expire, because nothing could be recovered then.
  renewAhead: z
    .boolean()
    .exactOptional()
    .describe('Renewed at its refresh time under every policy: for what recovery itself stands on'),
  validity: duration.describe('Life of a new certificate'),
  refresh: duration.describe('Age at which the policy BeforeExpiry renews it'),
};
const names = z.array(objectName).min(1);
const listedBy = z
  .enum(['kubeadm'])
  .exactOptional()
  .describe('Whose list of certificates it is in (`kubeadm certs check-expiration`)');

export const artefactSchema = z.discriminatedUnion('kind', [
  z
    .strictObject({
      kind: z.literal('signer'),
      ...base,
      issuer: objectName
        .exactOptional()
        .describe('The signer that signs this one; without it the signer is self-signed'),
      commonName: someText
        .exactOptional()
        .describe('Of its certificates, before "_@" and the time. Default: by namespace and name of its object'),
      // On disk each of several machines would make its own; without a value for the parameter none is made.
      owned: z
        .union([z.boolean(), z.strictObject({ unlessSet: parameterName })], {
          error: 'true, false, or {unlessSet: PARAMETER}',
        })
        .exactOptional()
        .describe(
          'Whether it may be regenerated here; only while that parameter is empty. Default: true in the API, false on disk',
        ),
      listedBy,
      ...life,
    })
    .describe('A CA certificate with its key'),
  z
    .strictObject({ kind: z.literal('caBundle'), ...base, signers: names })
    .describe('The certificates of its signers, present and former ones until they expire'),
  z
    .strictObject({ kind: z.literal('composedBundle'), ...base, inputs: names })
    .describe('All certificates of several bundles'),
  z
    .strictObject({
      kind: z.literal('copy'),
      ...base,
      of: objectName,
      // A new certificate must be trusted everywhere before it is used (cluster-kube-controller-manager-operator
      // pkg/operator/targetconfigcontroller/targetconfigcontroller.go, ManageCSRSigner: five minutes).
      promoteAfter: duration
        .exactOptional()
        .describe(
          'Of a signer or a target: how long a new one is there before it is in use here; at once where this one cannot be used',
        ),
    })
    .describe('The same bytes in another place'),
  z
    .strictObject({
      kind: z.literal('target'),
      ...base,
      issuer: objectName
        .exactOptional()
        .describe('The signer that signs it; without it the certificate is self-signed'),
      obtainedBy,
      usage: z.enum(['client', 'serving', 'peer']).describe('peer: server and client at once'),
      // `present`: like `kubeadm certs renew` the file keeps the leaf and its other PEM blocks, without the issuer.
      template: z
        .enum(['declared', 'present'])
        .exactOptional()
        .describe(
          'Whence a renewal takes subject, names, usages and key algorithm. declared (default): from here. present: from ' +
            'the certificate that is there, else from its newest backup, else from here',
        ),
      presence: z
        .enum(['required', 'optional'])
        .exactOptional()
        .describe('optional: where it is absent nothing is missing and nothing is made. Default: required'),
      // The cluster's signer signs it; under every policy a former CA of ours is a reason to renew it, too.
      rotatedBy: z
        .enum(['kubelet'])
        .exactOptional()
        .describe('Who else renews it ahead of time: here it is renewed only once it has expired or cannot be used'),
      listedBy,
      regainedBy: someText
        .exactOptional()
        .describe('Of an optional one that every machine begins with: the command that makes a new one'),
      // --etcd-cafile is the CA of etcd as a server. Only etcd's own machine knows which CA it requires of its clients.
      mayBeOfOthers: z
        .boolean()
        .exactOptional()
        .describe(
          'Another CA may have signed it: then it is left alone until it ends, and never renewed with this one',
        ),
      knownBy: z
        .array(flagOfComponent)
        .min(1)
        .exactOptional()
        .describe(
          'Flags of those who meet it: the file of CA certificates that they name must hold the CA that signs it',
        ),
      supersededBy: objectName
        .exactOptional()
        .describe('A target in whose presence nobody reads this one any more: then nothing is made here'),
      commonName: someText
        .exactOptional()
        .describe('Required for a client. May hold {NAME} of a parameter with one value'),
      organizations: z.array(someText).default([]).describe('Groups of a client'),
      organizationsBefore: z
        .array(someText)
        .exactOptional()
        .describe('Groups in place of these on a machine that lacks clusterAdmins'),
      // So a renewal grants no other rights than the present certificate; without one the declared subject serves.
      keepsSubject: z
        .boolean()
        .exactOptional()
        .describe('Of a client: a renewal keeps common name and organizations of the certificate that is there'),
      hostnames: z
        .array(
          z.union([hostnameText, z.strictObject({ parameter: parameterName })], {
            error: 'a DNS name, an IP address, or {parameter: NAME}',
          }),
        )
        .default([])
        .describe('Names of a serving or peer certificate'),
      // A renewal keeps the names that people gave it. Without these addresses the machine's own components refuse it.
      demandedBy: z
        .array(
          z.union([flagOfComponent, z.strictObject({ endpoint: z.enum(['controlPlane', 'local']) })], {
            error: '{component: NAME, flag: NAME}, or {endpoint: local}',
          }),
        )
        .exactOptional()
        .describe(
          'Of one with the template present: the flags whose addresses it must hold, and those of its endpoint that ' +
            'kubeconfigs of the components connect to, as far as they are addresses of this machine',
        ),
      ...life,
    })
    .describe('A leaf certificate with its key'),
  z
    .strictObject({
      kind: z.literal('kubeconfigs'),
      ...base,
      client: objectName.describe('The target whose certificate and key they hold'),
      authority: objectName.describe('The bundle by which they know the API server'),
      user: someText.describe('Name of the user and of the context in them'),
      servers: z
        .array(
          z.strictObject({
            key: entryKey.describe('Key of the entry'),
            cluster: someText.describe('Name of the cluster in it'),
            server: z
              .union([serverUrl, z.strictObject({ endpoint: z.enum(['controlPlane', 'internal', 'local']) })], {
                error: 'a URL of https, or {endpoint: controlPlane}, {endpoint: internal} or {endpoint: local}',
              })
              .describe('A URL, or which address of the API server'),
            tlsServerName: hostnameText
              .exactOptional()
              .describe('The name to ask for, where it is not that of the URL'),
          }),
        )
        .min(1),
    })
    .describe('Kubeconfigs of one user for several ways to the API server, each an entry of one Secret'),
  z
    .strictObject({
      kind: z.literal('keyPair'),
      ...base,
      privateKey: entryKey.describe('Key of the entry that holds the private key'),
      publicKey: entryKey.describe('Key of the entry that holds the public key'),
    })
    .describe('A key pair without certificate: checked and published, never renewed'),
  z
    .strictObject({
      kind: z.literal('external'),
      ...base,
      ...followed,
    })
    .describe(
      'A CA bundle or a certificate with its key that somebody else maintains: used here, never written, unless followed',
    ),
  z.strictObject({ kind: z.literal('opaque'), ...base }).describe('Only synced to disk; not understood'),
]);
export type RawArtefact = z.output<typeof artefactSchema>;

const presetDescription = someText.max(100);

export const policyKind = z.enum(['OnlyWhenExpired', 'BeforeExpiry']);

export const inventoryHead = z.object({
  name: objectName.default('custom').describe('Name of the inventory, for messages'),
  description: presetDescription.exactOptional().describe('What it is for, in a list of presets'),
  repairsBefore: z
    .array(unitName)
    .min(1)
    .exactOptional()
    .describe('Services before whose start the units of `init host` repair. Default: kubelet.service'),
  discover: z
    .enum(finderNames)
    .exactOptional()
    .describe(`Where what the configuration does not give is found. ${findersText}`),
  namespace: namespaceName.exactOptional().describe('Namespace of every object that does not name one'),
  inPodNamespace: z.literal(true).exactOptional().describe('Env POD_NAMESPACE takes the place of the namespace'),
  policy: z
    .strictObject({ kind: policyKind.describe('BeforeExpiry: nobody else rotates these. Default: OnlyWhenExpired') })
    .exactOptional()
    .describe('When these are renewed, where the configuration does not say it'),
  tlsRegistry: z
    .strictObject({
      owningComponent: someText,
      autoRegenerateAfterOfflineExpiry: someText
        .exactOptional()
        .describe('Where it was shown that they come back after a time off'),
    })
    .exactOptional()
    .describe("How objects are known in OpenShift's TLS registry: labels and annotations, written with their content"),
  parameters: z
    .record(
      parameterName,
      z.strictObject({
        description: someText,
        default: z
          .array(hostnameText)
          .exactOptional()
          .describe('Used when nothing is given; without it it is required'),
      }),
    )
    .default({})
    .describe('Lists of DNS names and IP addresses that the configuration gives for this cluster'),
  directories,
  files,
});

/** An inventory inside a configuration file. */
export const inventorySchema = z.strictObject({ ...inventoryHead.shape, artefacts: z.array(artefactSchema).min(1) });
export type RawInventory = z.output<typeof inventorySchema>;

/** An inventory in a file of its own: a preset. */
export const inventoryFileSchema = z
  .strictObject({ apiVersion: z.literal(apiVersion), kind: z.literal('Inventory'), ...inventorySchema.shape })
  .meta({ title: 'Inventory of kube-cert-recovery' });
