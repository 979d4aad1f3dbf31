// Sections of the modes in the configuration file: for each mode its credential, and its own settings if it has any.
import * as z from 'zod';
import { defaultBootstrapNamespace, requesterNames } from '../bootstrap-identity.ts';
import { durationText } from '../duration.ts';
import {
  directoryPath,
  durationAboveZero,
  durationUpTo,
  namespaceName,
  objectName,
  someText,
} from '../inventory/values.ts';
import { defaultCaBeforeMs } from '../pki/ca-due.ts';
import { parseWindow, windowWanted } from '../plan/window.ts';
import { defaultBackupDir, defaultLockDir, kubeletSignerNames, nodePrefix } from '../well-known.ts';
import { addressSources } from './address-settings.ts';
import { authoritySettings } from './authority-settings.ts';
import { fleetSettings } from './fleet-settings.ts';
import { deliveries, machine, sources } from './management-settings.ts';
import { type Mode, modeNames } from './mode-names.ts';

// Kept as text: flags and file are merged unparsed, and parsed afterwards.
const renewalWindow = z.string({ error: windowWanted }).refine((text) => parseWindow(text) !== undefined, {
  error: windowWanted,
});

/** The collector reads no other files. */
const metricsPath = directoryPath.refine((path) => path.endsWith('.prom'), { error: 'a path that ends in .prom' });

const requester = z.strictObject({
  // A node renews its own certificate by another rule, kube-controller-manager's.
  username: someText.refine((name) => !name.startsWith(nodePrefix), { error: "a username that is no node's" }),
  groups: z.array(someText).min(1),
});

const section = <Settings extends z.ZodRawShape>(mode: Mode, settings: Settings) =>
  z
    .strictObject({ kubeconfig: directoryPath.optional().describe(`Credential of mode ${mode}`), ...settings })
    .describe(`Settings of mode ${mode}`);
const credentialAlone = (mode: Mode) => section(mode, {}).prefault({});

/** Modes with settings of their own. */
const ownSections = {
  regen: section('regen', {
    locations: z
      .enum(['all', 'disk', 'api'])
      .default('all')
      .describe('Which artefacts: all (default), those in files of this host, or those in the API'),
    restart: z
      .boolean()
      .default(false)
      .describe(
        'Restart components of this host that must read renewed files again, and prove their use; without once in a run ' +
          'at each change of an input in the API and every half minute',
      ),
    renewBefore: durationAboveZero
      .optional()
      .describe('Remaining life with which leaf certificates in files of this host are renewed. Default: none of it'),
    caRenewBefore: durationAboveZero
      .optional()
      .describe(
        'With renewBefore: remaining life with which a CA in files of this host is renewed with its own key, or ' +
          `reported. Default: ${durationText(defaultCaBeforeMs)}`,
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
    warnBefore: durationAboveZero
      .prefault('30d')
      .describe('With once: remaining life below which an Event on the Node warns once a day. Default: 30d'),
    metricsFile: metricsPath
      .optional()
      .describe("With once: file for node_exporter's textfile collector, written by each run. Default: none"),
    onRenewed: directoryPath
      .optional()
      .describe(
        'With once and restart: a program that is run as root after renewals, without arguments. Default: none',
      ),
    ...authoritySettings,
    ...fleetSettings,
    clockSynchronised: z
      .union([z.literal('auto'), z.boolean()], { error: 'auto, true or false' })
      .default('auto')
      .describe(
        'Whether the clock of this machine is synchronised. Default: auto, what this machine and leaders on others say',
      ),
    sources,
    deliveries,
    machine,
  }).prefault({}),
  syncer: section('syncer', {
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
  }).prefault({}),
  approver: section('approver', {
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
  }).prefault({}),
} satisfies { readonly [M in Mode]?: z.ZodType };

export const modeSections = {
  ...Object.fromEntries(modeNames.map((mode) => [mode, credentialAlone(mode)])),
  ...ownSections,
} as {
  readonly [M in Mode]: M extends keyof typeof ownSections
    ? (typeof ownSections)[M]
    : ReturnType<typeof credentialAlone>;
};
