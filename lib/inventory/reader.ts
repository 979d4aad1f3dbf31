// A reader of an artefact in its YAML form: how it learns the files, its action to pick up a change, where it serves,
// and how its use is proven.
import * as z from 'zod';
import { hostnameText, namespaceName, objectName, someText } from './values.ts';

const proof = z.discriminatedUnion('kind', [
  z
    .strictObject({ kind: z.literal('served'), serverName: hostnameText })
    .describe('A TLS handshake with the local API server for this name is answered with this certificate'),
  z
    .strictObject({ kind: z.literal('lease'), namespace: namespaceName, name: objectName })
    .describe('The client renews this Lease'),
  z.strictObject({ kind: z.literal('signsCsr') }).describe('A certificate signing request is signed by it'),
  z.strictObject({ kind: z.literal('proxied') }).describe('Used towards other servers: reported, never waited for'),
  z.strictObject({ kind: z.literal('none') }).describe('No proof is possible'),
]);

type ProofKind = z.output<typeof proof>['kind'];

interface ProofFacts {
  /** Its absence is no fault: it depends on other components. */
  readonly waitsForOthers: boolean;
  /** Kind of artefact that it can prove, where that is not every kind. */
  readonly of?: 'signer' | 'server';
  /** Objects of the whole cluster that it lists. */
  readonly lists?: { readonly apiGroup: string; readonly resource: string };
}

/** Facts about each kind of proof; lib/proof/prove.ts has how each is fetched. */
export const proofKinds: Readonly<Record<ProofKind, ProofFacts>> = {
  served: { waitsForOthers: false, of: 'server' },
  lease: { waitsForOthers: false },
  signsCsr: {
    waitsForOthers: true,
    of: 'signer',
    lists: { apiGroup: 'certificates.k8s.io', resource: 'certificatesigningrequests' },
  },
  proxied: { waitsForOthers: true, lists: { apiGroup: 'apiregistration.k8s.io', resource: 'apiservices' } },
  none: { waitsForOthers: true },
};

const kubeconfig = z.strictObject({
  authority: objectName.describe('The bundle by which it knows the API server'),
  endpoint: z.enum(['controlPlane', 'local']).describe('The API server of the cluster, or the one on its machine'),
  tlsServerName: hostnameText.exactOptional().describe('The name to ask for, where it is not that of the URL'),
});

const server = z.strictObject({
  port: z.int().min(1).max(65_535).exactOptional().describe('Default: that of the API server'),
  address: z
    .enum(['loopback', 'apiServer'])
    .default('loopback')
    .describe('On this machine: the loopback address, or the one of its API server'),
  client: objectName.exactOptional().describe('The target with which to ask, where strangers are refused'),
});

export const reader = z.strictObject({
  component: objectName.describe('The component that reads the files'),
  needs: z
    .enum(['nothing', 'restart'])
    .default('nothing')
    .describe('What it needs to pick up a change: nothing, or a restart because it reads the file only at its start'),
  kubeconfig: kubeconfig.exactOptional().describe('Of a client: `init` writes it a kubeconfig that names the files'),
  serves: server.exactOptional().describe('Where it shows this certificate: `status` of a machine looks there'),
  proof: proof.default({ kind: 'none' }),
});

/** Flag of a component, without dashes. */
export const flagOfComponent = z.strictObject({ component: objectName, flag: objectName });

/** Placeholder in the value of a flag. */
export const kubeconfigPlaceholder = 'kubeconfig';

export const flags = z.record(
  objectName,
  someText.describe('With {KEY} for the file of that entry, and {kubeconfig} for that of the component'),
);
