// Kinds of location of an artefact's bytes. All facts about a kind of location: its YAML form, the kinds of artefact it
// can hold, its word in messages, and its files or, for an object, where the syncer writes it. Parsing and changing its
// files is in lib/store/layouts.ts.
import * as z from 'zod';
import { entryKey, filePath, namespaceName, objectName, someText } from './values.ts';

interface LocationKind {
  /** Word before its name in a message. */
  readonly word: string;
  /** The kinds of artefact that may lie there; a copy lies where its original could. */
  readonly holds: readonly string[];
}
interface ObjectKind extends LocationKind {
  /** Directory below the syncer's destination. */
  readonly directory: string;
  /** Mode of its files there. */
  readonly mode: 0o600 | 0o644;
}
interface FileKind extends LocationKind {
  /** Its fields that hold a path, each with its entry; null where its readers take the file as a whole. */
  readonly files: Readonly<Record<string, string | null>>;
}

/** Objects in the API. */
export const objectKinds = {
  secret: {
    word: 'Secret',
    holds: ['signer', 'target', 'kubeconfigs', 'keyPair', 'external', 'opaque', 'copy'],
    directory: 'secrets',
    mode: 0o600,
  },
  configMap: {
    word: 'ConfigMap',
    holds: ['caBundle', 'composedBundle', 'external', 'opaque', 'copy'],
    directory: 'configmaps',
    mode: 0o644,
  },
} as const satisfies Readonly<Record<string, ObjectKind>>;

/** Fields of objects without a namespace, whose kind only their cluster knows: only ever read. */
export const fieldKinds = {
  field: { word: 'field', holds: ['external'] },
} as const satisfies Readonly<Record<string, LocationKind>>;

/**
 * Files on this host; the first one names the location. Entries have the keys of kubernetes.io/tls Secrets and of CA
 * bundle ConfigMaps.
 */
export const fileKinds = {
  pemPair: {
    word: 'pair',
    holds: ['signer', 'target', 'copy'],
    files: { certFile: 'tls.crt', keyFile: 'tls.key' },
  },
  pemFile: {
    word: 'file',
    holds: ['caBundle', 'composedBundle', 'external', 'copy'],
    files: { file: 'ca-bundle.crt' },
  },
  pemDirectory: { word: 'directory', holds: ['external'], files: { file: null } },
  combinedPem: { word: 'file', holds: ['target', 'copy'], files: { file: null } },
  registryAuths: { word: 'file', holds: ['copy'], files: { file: '.dockerconfigjson' } },
  kubeconfig: { word: 'kubeconfig', holds: ['target', 'external', 'copy'], files: { file: null, credentials: null } },
  keyFiles: {
    word: 'key',
    holds: ['keyPair'],
    files: { privateKeyFile: 'sa.key', publicKeyFile: 'sa.pub', otherPublicKeyFiles: 'sa.pub' },
  },
} as const satisfies Readonly<Record<string, FileKind>>;

export const locationKinds = { ...objectKinds, ...fieldKinds, ...fileKinds };
export const locationKeys = Object.keys(locationKinds) as readonly (keyof typeof locationKinds)[];

interface Holding {
  readonly kind: keyof typeof locationKinds;
  readonly key?: string;
  readonly content?: 'bundles' | 'registryAuths' | undefined;
}

/** Content of another program there; where a signer may lie it is a certificate with its key, unless the place says it. */
export function contentIn({ kind, key, content }: Holding): 'pair' | 'bundle' | 'bundles' | 'registryAuths' {
  if (content !== undefined) return content;
  if (kind === 'registryAuths') return kind;
  if (kind === 'pemDirectory') return 'bundles';
  return key === undefined && (locationKinds[kind].holds as readonly string[]).includes('signer') ? 'pair' : 'bundle';
}

/** Whether that is one bundle, or one for each name. */
export const holdsBundles = (location: Holding): boolean => ['bundle', 'bundles'].includes(contentIn(location));

export const locationKeysText = `${locationKeys.slice(0, -1).join(', ')} and ${locationKeys.at(-1)}`;

export const locationSchema = z
  .strictObject({
    secret: objectName.exactOptional().describe('Name of a Secret'),
    configMap: objectName.exactOptional().describe('Name of a ConfigMap'),
    key: entryKey
      .exactOptional()
      .describe('Of an external bundle: the entry of the object that holds it. Default: ca-bundle.crt'),
    content: z
      .enum(['bundles', 'registryAuths'])
      .exactOptional()
      .describe(
        'Of an external one. bundles: one for each image registry, each an entry of the ConfigMap, or an item ' +
          '{file, data} of the list in the field; `..` in a name is `:`. registryAuths: credentials for image ' +
          'registries (kubernetes.io/dockerconfigjson)',
      ),
    namespace: namespaceName
      .exactOptional()
      .describe('Namespace of the object; default: the namespace of the inventory'),
    field: z
      .strictObject({
        apiVersion: someText.describe('Group and version: machineconfiguration.openshift.io/v1'),
        resource: objectName.describe('Plural name of the kind: controllerconfigs'),
        name: objectName,
        path: someText.describe('Names of the fields above it, and its own: spec.kubeAPIServerServingCAData'),
      })
      .exactOptional()
      .describe('A bundle in a field of an object without a namespace: PEM, or that in base64'),
    pemPair: z
      .strictObject({ certFile: filePath, keyFile: filePath })
      .exactOptional()
      .describe('A certificate and its key as two PEM files on this host'),
    pemFile: filePath.exactOptional().describe('CA certificates in one PEM file on this host'),
    pemDirectory: filePath
      .exactOptional()
      .describe('A directory with a bundle for each image registry: HOST[:PORT]/ca.crt'),
    registryAuths: filePath
      .exactOptional()
      .describe('Credentials for image registries in a file on this host: JSON with `auths`'),
    // Same layout as the kubelet's own (client-go util/certificate/certificate_store.go): where the file is a symbolic
    // link, a new dated file is made next to its target and the link is flipped.
    combinedPem: filePath.exactOptional().describe('A certificate and its key in one PEM file on this host'),
    // Includes the CA for its server, embedded or in the files that it names. Everything else in it stays.
    kubeconfig: z
      .strictObject({
        file: filePath,
        endpoint: z
          .enum(['controlPlane', 'local'])
          .describe(
            'Of one written from nothing: the API server that it names, that of the cluster or the one beside it',
          ),
        context: z
          .literal('current')
          .exactOptional()
          .describe('Its component uses the current context, whatever cluster that names'),
        only: z
          .literal('ca')
          .exactOptional()
          .describe('Of one that is followed: the CA of its server alone, whoever its user is'),
        credentials: filePath
          .exactOptional()
          .describe('Of one written from nothing: the PEM file of its certificate and key. Default: embedded'),
      })
      .exactOptional()
      .describe('The credentials of the current context of a kubeconfig on this host'),
    keyFiles: z
      .strictObject({
        privateKeyFile: filePath,
        publicKeyFile: filePath,
        otherPublicKeyFiles: z
          .array(filePath)
          .min(1)
          .exactOptional()
          .describe('Further files of public keys, where its own may be in any of them'),
      })
      .exactOptional()
      .describe('A key, and its public key or a certificate for it, as PEM files on this host: only ever read'),
  })
  .meta({ oneOf: locationKeys.map((key) => ({ required: [key] })) })
  .describe(`Where the bytes live: exactly one of ${locationKeysText}`);
export type RawLocation = z.output<typeof locationSchema>;
