// Kinds of location of an artefact's bytes. All facts about a kind of location: its YAML form, the kinds of artefact it
// can hold, its word in messages, and its files or, for an object, where the syncer writes it. Parsing and changing its
// files is in lib/store/layouts.ts.
import * as z from 'zod';
import { filePath, namespaceName, objectName } from './values.ts';

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
  combinedPem: { word: 'file', holds: ['target', 'copy'], files: { file: null } },
  kubeconfig: { word: 'kubeconfig', holds: ['target', 'external', 'copy'], files: { file: null, credentials: null } },
  keyFiles: {
    word: 'key',
    holds: ['keyPair'],
    files: { privateKeyFile: 'sa.key', publicKeyFile: 'sa.pub', otherPublicKeyFiles: 'sa.pub' },
  },
} as const satisfies Readonly<Record<string, FileKind>>;

export const locationKinds = { ...objectKinds, ...fileKinds };
export const locationKeys = Object.keys(locationKinds) as readonly (keyof typeof locationKinds)[];

/** Whether content of another program is a bundle there; where a signer may lie it is a certificate with its key. */
export const holdsBundles = (kind: keyof typeof locationKinds): boolean =>
  !(locationKinds[kind].holds as readonly string[]).includes('signer');

export const locationKeysText = `${locationKeys.slice(0, -1).join(', ')} and ${locationKeys.at(-1)}`;

export const locationSchema = z
  .strictObject({
    secret: objectName.exactOptional().describe('Name of a Secret'),
    configMap: objectName.exactOptional().describe('Name of a ConfigMap'),
    namespace: namespaceName
      .exactOptional()
      .describe('Namespace of the object; default: the namespace of the inventory'),
    pemPair: z
      .strictObject({ certFile: filePath, keyFile: filePath })
      .exactOptional()
      .describe('A certificate and its key as two PEM files on this host'),
    pemFile: filePath.exactOptional().describe('CA certificates in one PEM file on this host'),
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
