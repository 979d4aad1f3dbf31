// The one table of flags: the options of the command line, the types of their values, their settings (sources.ts), the
// names of flags in messages, and the tables of docs/reference.md (scripts/flags.ts) derive from it. No flag has a
// default here: a default must not override the configuration file. Pure.
import { type FlagColumns, initFlags, usualWait } from './init-flags.ts';
import { type Mode, modeNames } from './mode-names.ts';

/** Each mode may have a credential of its own. */
const ownKubeconfigs = Object.fromEntries(
  modeNames.map((mode) => [
    `--${mode}-kubeconfig <file>`,
    { field: `${mode}.kubeconfig`, as: 'path', help: `credential of mode ${mode}` },
  ]),
) as {
  readonly [M in Mode as `--${M}-kubeconfig <file>`]: {
    readonly field: `${M}.kubeconfig`;
    readonly as: 'path';
    readonly help: string;
  };
};

/**
 * Flags by owner: every command (`all`), the command without a name, which runs modes (`modes`), or a command and its
 * subcommands. In the order of the help text.
 */
const flagTable = {
  all: {
    '--config <file>': { as: 'path', units: 'kept', help: 'configuration file (YAML)' },
    '--preset <name>': {
      field: 'preset',
      units: 'kept',
      isOfCluster: true,
      help: 'inventory that comes with the program',
    },
    '-n, --namespace <name>': {
      field: 'namespace',
      units: 'refused',
      isOfCluster: true,
      help: 'namespace of the objects, in place of that of the inventory',
    },
    '--parameter <name=value,...>': {
      field: 'parameters',
      as: 'listsByName',
      units: 'kept',
      help: 'names and addresses for a parameter of the inventory; repeatable',
    },
    '--directory <name=path>': {
      field: 'directories',
      as: 'pathsByName',
      units: 'kept',
      help: 'path for a directory of the inventory; repeatable',
    },
    '--kubeconfig <file>': {
      field: 'kubeconfig',
      as: 'path',
      units: 'refused',
      help: 'credential of every mode that has none of its own (env KUBECONFIG)',
    },
    '--destination-dir <path>': {
      field: 'syncer.destinationDir',
      as: 'path',
      units: 'refused',
      help: 'directory below which the syncer writes',
    },
    '--tls-server-name-override <name>': {
      field: 'tlsServerNameOverride',
      units: 'refused',
      help: 'name asked for in TLS handshakes, in place of what kubeconfigs say',
    },
    '--recovery-server-name <name>': {
      field: 'recoveryServerName',
      units: 'refused',
      isOfCluster: true,
      help: 'name of the certificate that outlives all others (default: localhost-recovery)',
    },
    '--api-server-address <host:port>': {
      field: 'apiServerAddress',
      units: 'kept',
      isOfCluster: true,
      help: 'where proofs meet the API server (default: server of the kubeconfig)',
    },
    '--ca-renewal <how>': {
      field: 'regen.caRenewal',
      units: 'kept',
      help: 'a CA in files that is due or expired, its key here: SameKey or Report (default: SameKey)',
    },
    '--accept-ca <fingerprint,...>': {
      field: 'regen.acceptCa',
      as: 'lists',
      units: 'refused',
      help: 'a CA in files, by SHA256:..., that may sign although all here was signed by another one; repeatable',
    },
    '--accept-lagging <node,...>': {
      field: 'regen.acceptLagging',
      as: 'lists',
      units: 'refused',
      help: 'with regen.waitForNodes: nodes that may lack a new CA when it signs; repeatable',
    },
    '--dry-run': { field: 'dryRun', help: 'write nothing, say what would be written' },
    '-v, --log-level <level>': {
      field: 'log.level',
      as: 'level',
      units: 'kept',
      help: 'debug, info, warn or error, or a number as components of Kubernetes take it (default: info)',
    },
    '--log-format <format>': {
      field: 'log.format',
      units: 'kept',
      help: 'json or text (default: text in the journal, with priorities, and on a terminal; else json; also --logging-format)',
    },
  },
  modes: {
    '--mode <modes>': {
      field: 'modes',
      as: 'list',
      help: `${modeNames.join(', ')}, or several with commas between them`,
    },
    '--once': { field: 'once', help: 'make one full pass, then exit' },
    '--locations <which>': {
      field: 'regen.locations',
      help: 'which artefacts regen looks at: all, disk (no API is needed) or api (default: all)',
    },
    '--restart': {
      field: 'regen.restart',
      help: 'restart components of this host that must read renewed files again; prove use; without --once, again and again',
    },
    '--renew-before <duration>': {
      field: 'regen.renewBefore',
      units: 'kept',
      help: 'renew files of this host so long before they expire, such as 30d (default: when they have expired)',
    },
    '--window <when>': {
      field: 'regen.window',
      units: 'kept',
      help: 'with --renew-before: only then, such as Sat,Sun/02:00-05:00; a time zone may follow after a space',
    },
    '--warn-only': {
      field: 'regen.warnOnly',
      units: 'kept',
      help: 'with --renew-before: only say what is due; what has expired is renewed all the same',
    },
    '--metrics-file <file>': {
      field: 'regen.metricsFile',
      as: 'path',
      units: 'kept',
      help: "with --once: file for node_exporter's textfile collector, such as /var/lib/prometheus/node-exporter/certs.prom",
    },
    '--on-renewed <file>': {
      field: 'regen.onRenewed',
      as: 'path',
      units: 'kept',
      help: 'with --once --restart: program that is run after renewals, told what by its environment',
    },
    '--component <name,...>': {
      field: 'syncer.components',
      as: 'lists',
      help: 'write only what these components read; repeatable',
    },
    ...ownKubeconfigs,
    '--signers <name,...>': {
      field: 'approver.signers',
      as: 'lists',
      help: 'what mode approver approves: kubelet-client, kubelet-serving or both; repeatable',
    },
    '--caches-synced-file <file>': {
      field: 'syncer.cachesSyncedFile',
      as: 'path',
      help: 'file that the syncer makes once it has looked at every object',
    },
    '--listen <address>': { help: "taken from OpenShift's recovery containers, and unused: they serve nothing there" },
    '--health-probe-bind-address <address>': {
      field: 'healthProbeBindAddress',
      help: 'where /livez, /readyz, /healthz and /metrics are served ("0": nowhere)',
    },
  },
  status: {
    '-o, --output <format>': { help: 'table, json or yaml (default: table)' },
    '--at <date>': { help: 'as of another day: would everything come back if it were off until then?' },
    '--wait [duration]': {
      alone: usualWait,
      help: `look again until all is well and served, at most so long, such as 2m (without a value: ${usualWait})`,
    },
    '--watch': { help: 'print the report again whenever something has changed' },
    '--fleet': { help: 'which nodes of the cluster lack a CA, or have not loaded it (default preset: node-ca)' },
  },
  verify: {
    '-o, --output <format>': { help: 'table, json, yaml, or the graph as mermaid or svg (default: table)' },
    '--at <date>': { help: 'as of another day' },
    '--without <ca>': { help: 'as if this CA were gone: its file, or its fingerprint SHA256:...' },
  },
  rehearse: {
    '--at <date>': { help: 'as if it were switched on then (default: a day after its last certificate has expired)' },
  },
  ...initFlags,
  'renew-worker': {
    '--worker-token-file <file>': {
      help: 'token to ask with (default: /etc/kubernetes/kube-cert-recovery/credentials/worker/token)',
    },
    '--wait <duration>': { help: 'how long the API server and an approval are waited for (default: 40s)' },
    '--restart-kubelet': { help: 'after a renewal, restart a kubelet that has read the expired certificate' },
  },
  worker: { '--out <directory>': { help: 'where the file is written (default: the working directory)' } },
  restore: {
    '--generation <number>': { help: 'which copy is put back (default: the youngest of use)' },
    '--force': { help: 'put back an expired or useless copy although what is there is valid' },
    '-o, --output <format>': { help: 'form of the list: text or json (default: text)' },
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, FlagColumns>>>>;

type FlagTable = typeof flagTable;
export type FlagOwner = keyof FlagTable;

export interface FlagRow extends FlagColumns {
  readonly owner: FlagOwner;
  /** Form in the help text: `-n, --namespace <name>`. */
  readonly usage: string;
  /** `--namespace` */
  readonly flag: string;
  /** Property name of the parsed value: `dryRun`. */
  readonly key: string;
}

export const flagRows: readonly FlagRow[] = Object.entries(flagTable).flatMap(([owner, rows]) =>
  Object.entries<FlagColumns>(rows).map(([usage, columns]) => {
    const flag = /--[\w-]+/.exec(usage)?.[0] ?? '';
    const key = flag.slice(2).replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
    return { ...columns, owner: owner as FlagOwner, usage, flag, key };
  }),
);

/** Commands that make what the modes make of files, so that flags of the modes count for them. */
const asUnits: ReadonlySet<string> = new Set(['init host', 'status', 'rehearse', 'explain']);
const ofExporter: ReadonlySet<string> = new Set(
  ['config', 'metrics-file', 'health-probe-bind-address', 'log-level', 'log-format'].map((name) => `--${name}`),
);
/** Commands that refuse flags which no unit uses. */
const ofUnits: ReadonlySet<string> = new Set(['init host', 'uninstall host', 'renew-worker']);

/** Whether a command uses this flag of its parents. */
export function isUsedBelow({ flag, owner, units }: FlagRow, command: string): boolean {
  if (command === 'exporter') return ofExporter.has(flag);
  if (/^(preset|schema)\b/.test(command)) return false;
  if (owner === 'modes') return units === 'kept' && asUnits.has(command);
  return units !== 'refused' || !ofUnits.has(command);
}

export const isRepeatable = ({ as }: FlagRow): boolean =>
  as === 'lists' || as === 'listsByName' || as === 'pathsByName';

/** Value of a flag on the command line. */
export function typedValue(line: object, { key }: FlagRow): string | readonly string[] | boolean | undefined {
  return (line as Readonly<Record<string, string | readonly string[] | boolean | undefined>>)[key];
}

/** Flag that sets a field of the configuration file, or a part of it: `parameters.hosts[0]`. */
export function flagOfField(path: string): FlagRow | undefined {
  return flagRows.find(
    ({ field = '?' }) => path === field || path.startsWith(`${field}.`) || path.startsWith(`${field}[`),
  );
}

type Camel<Name extends string> = Name extends `${infer Head}-${infer Rest}`
  ? `${Head}${Capitalize<Camel<Rest>>}`
  : Name;
type KeyOf<Usage> = Usage extends `${string}--${infer Name}`
  ? Camel<Name extends `${infer Flag} ${'<' | '['}${string}` ? Flag : Name>
  : never;
type TypedAs<Usage, Columns> = Columns extends { readonly as: 'lists' | 'listsByName' | 'pathsByName' }
  ? readonly string[]
  : Usage extends `${string}${'>' | ']'}`
    ? string
    : boolean;
type RowOf<Owner> = Owner extends FlagOwner
  ? { [Usage in keyof FlagTable[Owner]]: readonly [Usage, FlagTable[Owner][Usage]] }[keyof FlagTable[Owner]]
  : never;

/** Parsed flags of these owners. Values are not validated yet. */
export type FlagsOf<Owner extends FlagOwner> = {
  readonly [Row in RowOf<Owner> as KeyOf<Row[0]>]?: TypedAs<Row[0], Row[1]>;
};

/** Flags that set fields of the configuration. */
export type ConfigFlags = Omit<FlagsOf<'all' | 'modes'>, 'config' | 'listen'>;
