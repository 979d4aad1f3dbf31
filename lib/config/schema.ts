// Schema of the configuration file: its syntax (the input), and its settings with defaults (the output). Strict; an
// `error` text names the wanted state. Sources are merged before they are parsed, so that no default of one source
// overrides a value of the other.
import * as z from 'zod';
import { deliveries, machine, sources } from './management-settings.ts';
import { inventoryFileSchema, inventorySchema, policyKind } from '../inventory/schema.ts';
import {
  checkedHostname,
  directoryPath,
  duration,
  durationAboveZero,
  durationUpTo,
  hostnameText,
  namespaceName,
  objectName,
  someText,
} from '../inventory/values.ts';
import { defaultBootstrapNamespace, requesterNames } from '../bootstrap-identity.ts';
import type { KeyAlgorithm } from '../pki/key.ts';
import { parseWindow, windowWanted } from '../plan/window.ts';
import { apiVersion, defaultBackupDir, defaultLockDir, defaultRecoveryServerName, nodePrefix } from '../well-known.ts';
import { kubeletSignerNames } from '../well-known.ts';
import type { Address } from '../address.ts';
import { addressSources } from './address-settings.ts';
import { authoritySettings } from './authority-settings.ts';

/** `host:port`, `[v6]:port`, `:port`. */
function parseAddress(text: string): Address | undefined {
  const [, v6, name, digits] = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]]*)):(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === undefined || port < 1 || port > 65_535) return undefined;
  const host = v6 ?? name ?? '';
  if (host === '') return { host, port };
  const checked = checkedHostname(host);
  return checked === undefined ? undefined : { host: checked, port };
}

const address = (error: string, fits: (text: string) => boolean) =>
  z.string({ error }).refine(fits, { error }).transform(parseAddress);
const bindAddress = address(
  'an address such as "127.0.0.1:8081" or ":8081", or "0" for none',
  (text) => text === '0' || parseAddress(text) !== undefined,
);
const serverAddress = address('an address such as "127.0.0.1:6443"', (text) => (parseAddress(text)?.host ?? '') !== '');
const serverName = hostnameText.refine((text) => checkedHostname(text) !== undefined, {
  error: 'a DNS name or an IP address',
});

// Kept as text: flags and file are merged unparsed, and parsed afterwards.
const renewalWindow = z.string({ error: windowWanted }).refine((text) => parseWindow(text) !== undefined, {
  error: windowWanted,
});

const requester = z.strictObject({
  // A node renews its own certificate by another rule, kube-controller-manager's.
  username: someText.refine((name) => !name.startsWith(nodePrefix), { error: "a username that is no node's" }),
  groups: z.array(someText).min(1),
});

const modeNames = ['regen', 'syncer', 'approver'] as const;
const keyAlgorithms = {
  rsa2048: { name: 'RSA', bits: 2048 },
  rsa4096: { name: 'RSA', bits: 4096 },
  ecdsaP256: { name: 'ECDSA', curve: 'P-256' },
  ecdsaP384: { name: 'ECDSA', curve: 'P-384' },
} as const satisfies Readonly<Record<string, KeyAlgorithm>>;

/** All settings, from the file and from flags. */
export const settingsSchema = z.strictObject({
  modes: z.array(z.enum(modeNames)).min(1).optional().describe('What this process does'),
  preset: objectName.optional().describe('An inventory that comes with the program'),
  inventory: inventorySchema.optional().describe('An inventory of your own, in place of a preset'),
  namespace: namespaceName.optional().describe('Takes the place of the default namespace of the inventory'),
  parameters: z
    .record(z.string(), z.array(hostnameText))
    .default({})
    .describe('DNS names and IP addresses by parameter of the inventory'),
  directories: z
    .record(z.string(), directoryPath)
    .default({})
    .describe('Absolute paths by directory parameter of the inventory'),
  kubeconfig: directoryPath.optional().describe('Credential of every mode that has none of its own'),
  regen: z
    .strictObject({
      kubeconfig: directoryPath.optional().describe('Credential of mode regen'),
      locations: z
        .enum(['all', 'disk', 'api'])
        .default('all')
        .describe('Which artefacts: all (default), those in files of this host, or those in the API'),
      restart: z
        .boolean()
        .default(false)
        .describe('With once: restart components of this host that must read renewed files again, and prove their use'),
      renewBefore: durationAboveZero
        .optional()
        .describe('Remaining life with which leaf certificates in files of this host are renewed. Default: none of it'),
      caRenewBefore: durationAboveZero
        .optional()
        .describe(
          'With renewBefore: remaining life with which a CA in files of this host is renewed with its own key, or reported. Default: 365d',
        ),
      window: renewalWindow
        .optional()
        .describe(
          'With renewBefore: when it is done, as [DAYS/]HH:MM-HH:MM[ ZONE]. What would expire before the next one waits ' +
            "for none. Default: at any time; the machine's time zone",
        ),
      warnOnly: z
        .boolean()
        .optional()
        .describe('With renewBefore: only say what is due, renew what has expired. Default: false'),
      backupDir: directoryPath
        .default(defaultBackupDir)
        .describe('Where files that are replaced are copied to. Default: /var/lib/kube-cert-recovery/backups'),
      lockDir: directoryPath
        .default(defaultLockDir)
        .describe('Keeps a second process from writing the same files. Default: /run/kube-cert-recovery'),
      ...authoritySettings,
      clockSynchronised: z
        .union([z.literal('auto'), z.boolean()], { error: 'auto, true or false' })
        .default('auto')
        .describe(
          'Whether the clock of this machine is synchronised. Default: auto, what this machine and leaders on others say',
        ),
      sources,
      deliveries,
      machine,
    })
    .prefault({})
    .describe('Settings of mode regen'),
  syncer: z
    .strictObject({
      kubeconfig: directoryPath.optional().describe('Credential of mode syncer'),
      destinationDir: directoryPath.optional().describe('Directory below which objects become files'),
      components: z
        .array(objectName)
        .min(1)
        .optional()
        .describe('Only what these components read becomes files. Default: everything that is published'),
      cachesSyncedFile: directoryPath
        .optional()
        .describe('File that is made once every object has been looked at, for a readiness probe. Default: none'),
      restart: z
        .enum(['report', 'react'])
        .default('report')
        .describe('Readers that read files at their start only: report (default), or restart those in the same pod'),
      manifestsDir: directoryPath
        .optional()
        .describe('Static-pod manifests of the kubelet, by which a pod that has not run long is restarted'),
      shortBackOff: z
        .boolean()
        .optional()
        .describe('Whether crashLoopBackOff.maxContainerRestartPeriod of the kubelet is few seconds. Default: false'),
    })
    .prefault({})
    .describe('Settings of mode syncer'),
  approver: z
    .strictObject({
      kubeconfig: directoryPath.optional().describe('Credential of mode approver'),
      nodeCertificate: directoryPath
        .default('/var/lib/kubelet/pki/kubelet-client-current.pem')
        .describe(
          "The client certificate of this machine's kubelet. Default: /var/lib/kubelet/pki/kubelet-client-current.pem",
        ),
      longestLife: durationUpTo('10000d')
        .prefault('365d')
        .describe('The longest that a client certificate of a kubelet lives in this cluster. Default: 365d'),
      signers: z
        .array(z.enum(kubeletSignerNames))
        .min(1)
        .default(['kubelet-client'])
        .describe('Certificates that are approved: kubelet-client (default), kubelet-serving, or both'),
      addresses: addressSources,
      requesters: z
        .array(
          z.union([z.enum(requesterNames), requester], {
            error: `${requesterNames.join(', ')}, or a mapping of username and groups`,
          }),
        )
        .min(1)
        .default(['kube-cert-recovery', 'worker'])
        .describe(
          'Whose requests for kubelets are judged: kube-cert-recovery and worker (default), kubeadm, openshift, or username and groups',
        ),
      expectedNodes: z
        .array(objectName)
        .default([])
        .describe('Names of nodes that are to come: the first request of each is approved. Default: none'),
      bootstrapNamespace: namespaceName
        .default(defaultBootstrapNamespace)
        .describe('Namespace of the ServiceAccount of the bootstrap identity. Default: kube-cert-recovery'),
    })
    .prefault({})
    .describe('Settings of mode approver'),
  policy: z
    .strictObject({
      kind: policyKind
        .optional()
        .describe(
          'OnlyWhenExpired: act when something is expired or broken. BeforeExpiry: be the owner. Default: what the inventory says, else OnlyWhenExpired',
        ),
      grace: durationUpTo('24h')
        .optional()
        .describe(
          'How long after its end an artefact in the API is left to others. Default: 1m; 0s with BeforeExpiry, because there are none',
        ),
      settle: durationUpTo('10m')
        .prefault('1s')
        .describe('How long two objects may contradict each other before that is taken for a fault. Default: 1s'),
    })
    .prefault({})
    .describe('When an artefact is renewed'),
  lives: z
    .record(
      objectName,
      z.strictObject({
        validity: duration.optional().describe('Life of a new certificate. Default: what the inventory says'),
        renewBefore: duration
          .optional()
          .describe('Remaining life with which it is renewed, under every policy. Default: what the others have'),
      }),
    )
    .default({})
    .describe('By name of a signer or target of the inventory, its life where that is to be another'),
  keyAlgorithm: z
    .enum(Object.keys(keyAlgorithms) as (keyof typeof keyAlgorithms)[])
    .transform((name): KeyAlgorithm => keyAlgorithms[name])
    .optional()
    .describe('Of new keys. Default: that of the key that is replaced, rsa2048 where there is none'),
  tlsServerNameOverride: serverName
    .optional()
    .describe('Name asked for in TLS handshakes, in place of what kubeconfigs say'),
  recoveryServerName: serverName
    .default(defaultRecoveryServerName)
    .describe(
      'Name under which the API server serves the certificate that outlives all others. Default: localhost-recovery',
    ),
  apiServerAddress: serverAddress
    .optional()
    .describe('Where proofs meet the API server. Default: the server of the kubeconfig'),
  healthProbeBindAddress: bindAddress
    .optional()
    .describe('Where /livez, /readyz, /healthz and /metrics are served. Default: "0", nowhere'),
  log: z
    .strictObject({
      level: z.enum(['debug', 'info', 'warn', 'error']).default('info').describe('Default: info'),
      format: z.enum(['json', 'text']).default('json').describe('Default: json'),
    })
    .prefault({})
    .describe('Log lines on standard error'),
  once: z.boolean().default(false).describe('Make one full pass, then exit'),
  dryRun: z.boolean().default(false).describe('Write nothing, say what would be written'),
});
/** Settings with defaults. */
export type Settings = z.output<typeof settingsSchema>;
/** Settings as one source gives them. */
export type GivenSettings = z.input<typeof settingsSchema>;

/** `inventory` is checked separately, with lines and names; here it may be anything. */
export const looseConfigSchema = settingsSchema.extend({
  apiVersion: z.literal(apiVersion),
  kind: z.literal('Configuration'),
  inventory: z.unknown().optional(),
});

const configFileSchema = z
  .strictObject({ apiVersion: z.literal(apiVersion), kind: z.literal('Configuration'), ...settingsSchema.shape })
  .meta({ title: 'Configuration of kube-cert-recovery' });

/** JSON Schema text of each file that administrators write. */
export function jsonSchemas(): Readonly<Record<'config' | 'inventory', string>> {
  const textOf = (schema: z.ZodType): string =>
    `${JSON.stringify(z.toJSONSchema(schema, { io: 'input', reused: 'inline' }), null, 2)}\n`;
  return { config: textOf(configFileSchema), inventory: textOf(inventoryFileSchema) };
}
