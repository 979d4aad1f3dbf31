// Configuration of each mode: its settings with their defaults, its credential, and its required fields. Pure.
import type { RenewalPolicy } from '../plan/decision.ts';
import type { Inventory } from '../inventory/model.ts';
import { isFile, isObtained } from '../inventory/places.ts';
import { componentsIn } from '../inventory/component-view.ts';
import { problemAt } from '../inventory/shape.ts';
import { suggestion } from '../problems.ts';
import { addressSourceKinds } from './address-settings.ts';
import { renewAheadOf } from './ahead-settings.ts';
import { acceptedAuthoritiesOf } from './authority-settings.ts';
import { fleetPolicyOf } from './fleet-settings.ts';
import { missing } from './sources.ts';
import type { ConfigReading } from './sources.ts';
import type { Mode } from './mode-names.ts';
import type { Settings } from './schema.ts';

/** Union by mode: a syncer never sees settings of regen alone, and each mode has its own credential. */
export type ModeConfig = ReturnType<typeof modeOf>[number];
export type RegenConfig = Extract<ModeConfig, { mode: 'regen' }> & { readonly obtaining?: Obtaining };
export type SyncerConfig = Extract<ModeConfig, { mode: 'syncer' }>;
export type ApproverConfig = Extract<ModeConfig, { mode: 'approver' }>;

/** How a machine without the key of the CA asks its cluster. */
interface Obtaining {
  readonly tokenFile: string;
  /** Time to wait for the API server, the approver and the signer together. */
  readonly waitMs: number;
}

/** Modes whose configuration is their section of the file, and the credential that counts. */
type PlainMode = Exclude<Mode, 'regen' | 'syncer'>;
type PlainConfig<M extends PlainMode> = M extends PlainMode
  ? { readonly mode: M; readonly kubeconfig: string } & Omit<Settings[M], 'kubeconfig'> &
      Pick<Settings['regen'], 'clockSynchronised'>
  : never;

/** The inventory knows who maintains these artefacts; an owner waits for no other controller. */
export function policyOf({ settings, input }: ConfigReading, inventory: Inventory | undefined): RenewalPolicy {
  const { policy, regen } = settings;
  const kind = policy.kind ?? inventory?.policy?.kind ?? 'OnlyWhenExpired';
  const graceMs = policy.grace ?? (kind === 'BeforeExpiry' ? 0 : 60_000);
  const ahead = renewAheadOf(settings, input.env['NODE_NAME'] || (input.hostName ?? ''));
  const acceptedAuthorities = acceptedAuthoritiesOf(regen.acceptCa);
  return {
    kind,
    graceMs,
    settleMs: policy.settle,
    caRenewal: regen.caRenewal,
    ...(regen.caOverlap !== undefined && { caOverlapMs: regen.caOverlap }),
    ...(ahead !== undefined && { ahead }),
    ...(acceptedAuthorities !== undefined && { acceptedAuthorities }),
    ...fleetPolicyOf(regen),
  };
}

/** Shared credential, for every user without its own: flag, file, KUBECONFIG. */
export function sharedKubeconfig({ input, settings, problems }: ConfigReading): string | undefined {
  if (settings.kubeconfig !== undefined) return settings.kubeconfig;
  const { KUBECONFIG: fromEnv } = input.env;
  if (fromEnv === undefined || fromEnv === '') return undefined;
  if (fromEnv.startsWith('/') && !fromEnv.includes(':')) return fromEnv;
  const message = `must be the absolute path of one file, got "${fromEnv}"`;
  problems.push({ path: 'env KUBECONFIG', kind: 'invalid', message });
  return undefined;
}

/** The most specific credential is used: the mode's, else the shared one. Flags override the file within each. */
export function modesOf(reading: ConfigReading, inventory: Inventory | undefined): readonly ModeConfig[] {
  const { settings } = reading;
  const wanted = [...new Set(settings.modes)];
  const own = wanted.length > 0 && wanted.every((mode) => settings[mode].kubeconfig !== undefined);
  const shared = own ? undefined : sharedKubeconfig(reading);
  const usesApi = inventory?.artefacts.some(({ location }) => !isFile(location)) ?? false;
  return wanted.flatMap((mode): readonly ModeConfig[] => {
    const kubeconfig = settings[mode].kubeconfig ?? shared;
    if (kubeconfig === undefined && (mode !== 'regen' || (settings.regen.locations !== 'disk' && usesApi))) {
      const given = ['kubeconfig', `${mode}.kubeconfig`, `--${mode}-kubeconfig`, 'env KUBECONFIG'];
      const message = `is required in mode ${mode} (or ${mode}.kubeconfig in the file, or env KUBECONFIG)`;
      missing(reading, ['--kubeconfig', ...given], message);
    }
    return modeOf(mode, { ...reading, inventory, kubeconfig });
  });
}

interface ModeReading extends ConfigReading {
  readonly inventory: Inventory | undefined;
  readonly kubeconfig: string | undefined;
}

/** One mode, or none where a required field is missing. */
function modeOf(mode: Mode, reading: ModeReading) {
  const { settings, inventory, kubeconfig } = reading;
  const { keyAlgorithm } = settings;
  if (mode === 'regen') {
    checkPairs(reading, inventory);
    checkObtained(reading, inventory);
    const { caRenewal: _ofPolicy, acceptCa: _accepted, caOverlap: _overlap, ...others } = settings.regen;
    const { waitForNodes: _nodes, acceptLagging: _lagging, ...own } = others;
    return [{ mode, ...own, kubeconfig, policy: policyOf(reading, inventory), keyAlgorithm }];
  }
  if (mode === 'syncer') return syncerOf(mode, reading);
  if (mode === 'approver') checkAddresses(reading);
  return kubeconfig === undefined ? [] : [plainOf(mode, kubeconfig, settings)];
}

function plainOf<M extends PlainMode>(mode: M, kubeconfig: string, settings: Settings): PlainConfig<M> {
  const { clockSynchronised } = settings.regen; // one machine has one clock
  return { ...settings[mode], mode, kubeconfig, clockSynchronised } as PlainConfig<M>;
}

/** Refuses a daemon that makes no single runs: no lock may be held while a certificate is obtained. */
function checkObtained({ settings, problems }: ModeReading, inventory: Inventory | undefined): void {
  if (settings.once || settings.dryRun || settings.regen.restart) return;
  if (inventory?.artefacts.some(isObtained) !== true) return;
  const message = `is required, or --restart: ${inventory.name} obtains certificates from the cluster, which single runs do`;
  problems.push({ path: '--once', kind: 'required', message });
}

/** Refuses unknown names: a misspelt name would never be fetched, delivered or waited for, unnoticed. */
export function checkPairs({ settings, file, problems }: ConfigReading, inventory: Inventory | undefined): void {
  const signers = inventory?.artefacts.flatMap((one) => (one.kind === 'signer' ? one.name : []));
  const known = inventory?.artefacts.flatMap((one) => (one.kind === 'target' && isFile(one.location) ? one.name : []));
  for (const [name, source] of Object.entries(settings.regen.sources)) {
    const problem = problemAt(file.place, ['regen', 'sources', name], {
      kind: 'invalid',
      message: 'must have exactly one of secret, pemPair and command',
    });
    const isKnown = problems.some(
      ({ path }) =>
        path === problem.path || (/^[.[]/.test(path.slice(problem.path.length)) && path.startsWith(problem.path)),
    );
    if (isKnown || Object.values(source).filter((one) => one !== undefined).length === 1) continue;
    problems.push(problem);
  }
  const wanted = 'a target in files of this host';
  const named = [['sources', known, wanted] as const, ['deliveries', known, wanted] as const];
  for (const [field, names, what] of [...named, ['waitForNodes', signers, 'a signer of the inventory'] as const]) {
    for (const name of Object.keys(settings.regen[field])) {
      if (names === undefined || names.includes(name)) continue;
      const message = `must be ${what}, got "${name}"${suggestion(name, names)}`;
      problems.push(problemAt(file.place, ['regen', field, name], { kind: 'notFound', message }));
    }
  }
}

/** Serving certificates hold names, so their owners must be configured. */
export function checkAddresses(reading: ConfigReading): void {
  const { settings, problems } = reading;
  const { signers, addresses } = settings.approver;
  const isServing = signers.includes('kubelet-serving');
  const path = 'approver.addresses';
  if (isServing && addresses.length === 0) {
    const kinds = addressSourceKinds;
    const listed = `${kinds.slice(0, -1).join(', ')} or ${kinds.at(-1)}`;
    missing(reading, [path], `is required with approver.signers: [kubelet-serving]: a list of ${listed}`);
  } else if (!isServing && addresses.length > 0) {
    problems.push({ path, kind: 'conflict', message: 'must be left out without approver.signers: [kubelet-serving]' });
  }
}

function syncerOf(mode: 'syncer', reading: ModeReading) {
  const { settings, inventory, kubeconfig, problems } = reading;
  const { destinationDir, restart: reaction, manifestsDir, shortBackOff, ...own } = settings.syncer;
  if (destinationDir === undefined) {
    const message = 'is required in mode syncer (or syncer.destinationDir in the file)';
    missing(reading, ['--destination-dir', 'syncer.destinationDir'], message);
  }
  if (kubeconfig === undefined || destinationDir === undefined) return [];
  checkComponents(reading, inventory);
  const restart = reaction === 'react' ? { hasShortBackOff: shortBackOff ?? false, manifestsDir } : undefined;
  const message = 'must be left out without syncer.restart: react';
  for (const [name, value] of Object.entries(restart === undefined ? { manifestsDir, shortBackOff } : {}))
    if (value !== undefined) problems.push({ path: `syncer.${name}`, kind: 'conflict', message });
  return [{ mode, ...own, kubeconfig, destinationDir, restart }];
}

export function checkComponents({ flags, settings, problems }: ConfigReading, inventory: Inventory | undefined): void {
  const { components = [] } = settings.syncer;
  const known = inventory === undefined ? components : componentsIn(inventory);
  const path = flags.syncer?.components === undefined ? 'syncer.components' : '--component';
  for (const name of components.filter((one) => !known.includes(one))) {
    const message =
      known.length === 0
        ? 'must be left out: the inventory does not say who reads what'
        : `must name components that read artefacts of the inventory (${known.join(', ')}), got "${name}"${suggestion(name, known)}`;
    problems.push({ path, kind: 'notFound', message });
  }
}
