// Schema of the configuration file: its syntax (the input), and its settings with defaults (the output). Strict; an
// `error` text names the wanted state. Sources are merged before they are parsed, so that no default of one source
// overrides a value of the other.
import * as z from 'zod';
import { inventoryFileSchema, inventorySchema, policyKind } from '../inventory/schema.ts';
import {
  checkedHostname,
  directoryPath,
  duration,
  durationUpTo,
  hostnameText,
  namespaceName,
  objectName,
} from '../inventory/values.ts';
import type { KeyAlgorithm } from '../pki/key.ts';
import { apiVersion, defaultRecoveryServerName } from '../well-known.ts';
import type { Address } from '../address.ts';
import { modeSections } from './mode-sections.ts';
import { modeNames } from './mode-names.ts';

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
const servingAddress = address(
  'an address such as "192.0.2.7:9793", or ":9793" for all of this machine',
  (text) => parseAddress(text) !== undefined,
);
const serverName = hostnameText.refine((text) => checkedHostname(text) !== undefined, {
  error: 'a DNS name or an IP address',
});

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
  ...modeSections,
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
  metrics: z
    .strictObject({
      bindAddress: servingAddress.describe('Where they are served, over TLS'),
      certFile: directoryPath.describe('Certificate of this server'),
      keyFile: directoryPath.describe('Its key'),
      clientCaFile: directoryPath.describe('CA whose clients may read them'),
    })
    .optional()
    .describe(
      'Without once: metrics for other machines. Default: none; /metrics of healthProbeBindAddress is for this one alone',
    ),
  log: z
    .strictObject({
      level: z.enum(['debug', 'info', 'warn', 'error']).default('info').describe('Default: info'),
      format: z
        .enum(['json', 'text'])
        .optional()
        .describe('Default: text in the journal, with priorities, and on a terminal; else json'),
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
