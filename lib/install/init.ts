// `init`: puts into the API everything that recovery needs before the first disaster. Uploads the generation made by
// `init render`, create-only, and verifies it; makes the identities of regen and syncer with their rights; writes their
// credentials. Running it again changes nothing that is already right, and completes a killed run. The staging
// directory, which holds signers' keys, is removed last and only when every object in the API is byte for byte the
// staged one.
import { isDeepStrictEqual } from 'node:util';
import { installedConfig } from '../config/installed-settings.ts';
import { isFile, isObject, isOfOthers } from '../inventory/places.ts';
import type { ApiLocation } from '../inventory/model.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { createApiStore } from '../store/api-store.ts';
import { locationText, type Material } from '../store/store.ts';
import { findWebhooks } from '../webhooks/find.ts';
import type { WebhookFinding } from '../webhooks/intercepting.ts';
import { toYaml } from '../yaml.ts';
import { defaultNamespace, type SyncerAccount } from './accounts.ts';
import { type Api, applyManifest, fieldManager, type Manifest, manifestText } from './apply.ts';
import { type CredentialOptions, credentialKubeconfig, writeCredential } from './mode-credentials.ts';
import { namesIn, removeDirectory, writeIfAbsent } from './existing-files.ts';
import { objectManifest, readStaged } from './first-generation.ts';
import { installedRecord, recordToCome } from './install-record.ts';
import { hostLayout } from './layout.ts';
import { installManifests, type RbacOptions, syncerOf } from './rbac.ts';

interface InitOptions extends Omit<CredentialOptions, 'api' | 'store' | 'layout' | 'namespace'> {
  /** Connection of an administrator who may create RBAC. */
  readonly connection: KubeConnection;
  /** Absolute path of the directory that `init render` wrote. */
  readonly directory: string;
  /** Namespace of the ServiceAccounts. Default: kube-cert-recovery. */
  readonly namespace?: string | undefined;
  /** Components whose files the syncer writes (syncer.components). Default: all. */
  readonly components?: readonly string[] | undefined;
  /** Decides what regen may read besides its objects. */
  readonly policy?: RbacOptions['policy'];
  /** Content of config.yaml except modes and credentials: preset or inventory, parameters, directories. */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
}

interface Changes {
  readonly created: string[];
  readonly updated: string[];
  /** Objects that existed already and are right. */
  readonly unchanged: string[];
  /** Objects whose content is not the staged one: left alone, and the staging directory is kept. */
  readonly differing: string[];
  /** Objects of the inventory that are neither in the API nor staged. */
  readonly missing: string[];
}

export interface InitOutcome extends Changes {
  readonly webhooks: readonly WebhookFinding[];
  /** Written files. */
  readonly files: readonly string[];
  readonly stagingRemoved: boolean;
  /** Staging directory, kept because objects differ: it holds signers' keys. */
  readonly stagingKept?: string | undefined;
}

/** Options and collaborators of one run. */
interface Installing extends InitOptions, CredentialOptions {
  readonly namespace: string;
  readonly staged: ReadonlyMap<string, Material>;
}

/** Throws the API's refusals, and WriteFailed. */
export async function runInit(options: InitOptions): Promise<InitOutcome> {
  const { connection, signal, resolved } = options;
  const layout = hostLayout(options.directory);
  const api: Api = { connection, signal };
  const outcome: Changes = { created: [], updated: [], unchanged: [], differing: [], missing: [] };

  const webhooks = await findWebhooks({ ...api, resolved });
  const { namespace, syncer, namespaces, others } = manifestsOf(options);
  const apply = async (manifest: Manifest): Promise<void> => {
    outcome[await applyManifest(api, manifest)].push(manifestText(manifest));
  };
  for (const manifest of namespaces) await apply(manifest);

  const staged = await readStaged(layout, resolved);
  const store = createApiStore({ connection, fieldManager });
  const installing: Installing = { ...options, namespace, api, store, layout, staged };
  // The record before the objects that it names: `uninstall` finds also objects of a killed run.
  await apply(await recordToCome(api, { resolved, namespace, absent: await absentObjects(installing) }));
  await upload(installing, outcome);

  for (const manifest of others) await apply(manifest);

  const files = await writeFiles(installing, syncer.account);
  const isThere = (await namesIn(layout.staging)).length > 0;
  const stagingRemoved = isThere && outcome.differing.length === 0;
  if (stagingRemoved) await removeDirectory(layout.staging);
  const stagingKept = isThere && !stagingRemoved ? layout.staging : undefined;
  return { ...outcome, webhooks, files, stagingRemoved, stagingKept };
}

type Named = Pick<InitOptions, 'resolved' | 'namespace' | 'components' | 'policy'>;

/** Manifests of all objects except certificates. */
function manifestsOf({ resolved, namespace = defaultNamespace, components, policy }: Named) {
  const syncer = syncerOf(resolved, components);
  const all = installManifests({ ...resolved, namespace, syncers: [syncer], policy });
  const isNamespace = ({ kind }: Manifest): boolean => kind === 'Namespace';
  return { namespace, syncer, namespaces: all.filter(isNamespace), others: all.filter((one) => !isNamespace(one)) };
}

/** Staged objects to create. */
async function absentObjects({ resolved, store, signal, staged }: Installing): Promise<ApiLocation[]> {
  const absent: ApiLocation[] = [];
  for (const { name, location } of resolved.artefacts) {
    if (!isObject(location) || !staged.has(name)) continue;
    if ((await store.read(location, signal)) === undefined) absent.push(location);
  }
  return absent;
}

/** Creates each absent object, and reads every object back. */
async function upload({ resolved, store, signal, staged }: Installing, outcome: Changes): Promise<void> {
  for (const artefact of resolved.artefacts) {
    const { name, location, published } = artefact;
    if (isFile(location)) continue;
    const material = staged.get(name);
    const what = locationText(location);
    if (material === undefined) {
      const isThere = (await store.read(location, signal)) !== undefined;
      if (isThere) outcome.unchanged.push(what);
      else if (!isOfOthers(artefact) || published === 'required') outcome.missing.push(what);
      continue;
    }
    const write = await store.write(location, material, 'absent', signal);
    const found = await store.read(location, signal);
    if (found === undefined || !isDeepStrictEqual(found.entries, material.entries)) outcome.differing.push(what);
    else outcome[write === 'written' ? 'created' : 'unchanged'].push(what);
  }
}

async function writeFiles(installing: Installing, account: SyncerAccount): Promise<string[]> {
  const { layout, settings, components } = installing;
  const written = [
    ...(await writeCredential('regen', installing)),
    ...(await writeCredential('syncer', installing, account)),
  ];
  const content = installedConfig(settings, {
    regen: { kubeconfig: credentialKubeconfig(layout, 'regen') },
    syncer: { kubeconfig: credentialKubeconfig(layout, 'syncer'), destinationDir: layout.certs, components },
  });
  const file = { path: layout.configFile, content, mode: 0o644, what: 'configuration' };
  if ((await writeIfAbsent(file)) === 'written') written.push(file.path);
  return written;
}

/**
 * `init --dry-run`: every manifest as YAML, in the order of creation; sends no request to the API and writes nothing.
 * The data of Secrets is left out, so the text can be kept and shown.
 */
export async function renderInitManifests(options: Named & Pick<InitOptions, 'directory'>): Promise<string> {
  const { resolved, directory } = options;
  const staged = await readStaged(hostLayout(directory), resolved);
  const { namespace, namespaces, others } = manifestsOf(options);
  const locations: ApiLocation[] = [];
  const objects = resolved.artefacts.flatMap(({ name, location }) => {
    const material = staged.get(name);
    if (!isObject(location) || material === undefined) return [];
    locations.push(location);
    const { data, ...manifest } = objectManifest(location, material);
    return [location.kind === 'secret' ? manifest : { ...manifest, data }];
  });
  return [...namespaces, installedRecord(resolved.name, namespace, locations), ...objects, ...others]
    .map((manifest) => toYaml(manifest))
    .join('---\n');
}
