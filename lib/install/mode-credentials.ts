// Credentials of each mode, and of kubelets without a certificate, as files: a token that never expires, and a
// kubeconfig that verifies the API server by the recovery name, whose certificate outlives all others. Each identity
// has its own directory, so that a pod can mount one and not the other.
import { join } from 'node:path';
import type { Secret } from '../kube/kube.ts';
import { getIfPresent, objectPath } from '../kube/objects.ts';
import type { Clock } from '../clock.ts';
import { poll } from '../retry.ts';
import { ensurePrivateDirectory, replaceFile } from '../disk/files.ts';
import { RecoveryError } from '../errors.ts';
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { serverAddress } from '../address.ts';
import { wholeCertificates } from '../pki/certificate.ts';
import { proveServed } from '../proof/served.ts';
import { caBundleKey } from '../inventory/content.ts';
import { fileOf } from '../inventory/places.ts';
import { locationText, type Store } from '../store/store.ts';
import { type Account, accountName, type ModeIdentity, tokenSecretName } from './accounts.ts';
import { type Api } from './apply.ts';
import { kubeconfigYaml } from './component-flags.ts';
import type { HostLayout } from './layout.ts';

export interface CredentialOptions {
  readonly api: Api;
  readonly store: Store;
  readonly clock: Clock;
  readonly resolved: Resolved;
  readonly layout: HostLayout;
  readonly namespace: string;
  /** Address of the API server. */
  readonly server: string;
  readonly recoveryServerName: string;
}

const pollMs = 100;
/** Longest time until kube-controller-manager fills a token Secret. */
const tokenTimeoutMs = 60_000;

function credentialDirectory({ credentials }: HostLayout, identity: ModeIdentity): string {
  return join(credentials, identity);
}

export function credentialKubeconfig(layout: HostLayout, identity: ModeIdentity): string {
  return join(credentialDirectory(layout, identity), 'kubeconfig');
}

/** Files that writeCredential writes, at most. */
export function credentialFiles(layout: HostLayout, identity: ModeIdentity): readonly string[] {
  const directory = credentialDirectory(layout, identity);
  return ['token', 'ca.crt', 'kubeconfig'].map((name) => join(directory, name));
}

/** Writes token, CA where needed, and kubeconfig of one identity, with the account's token. Returns changed files. */
export async function writeCredential(
  identity: ModeIdentity,
  options: CredentialOptions,
  account: Account = identity,
): Promise<string[]> {
  const { layout, server, recoveryServerName: tlsServerName } = options;
  const { token, rootCa } = await readToken(account, options);
  const directory = credentialDirectory(layout, identity);
  await ensurePrivateDirectory(layout.credentials);
  await ensurePrivateDirectory(directory);
  const tokenFile = join(directory, 'token');
  const ca = await recoveryAuthority(options, directory, rootCa);
  const certificateAuthority = ca.path;
  const user = { name: accountName(account), tokenFile };
  const files = [
    { path: tokenFile, content: token, mode: 0o600, what: 'token' },
    ...(ca.content === undefined ? [] : [{ path: ca.path, content: ca.content, mode: 0o600, what: 'CA bundle' }]),
    {
      path: credentialKubeconfig(layout, identity),
      content: kubeconfigYaml({ server, certificateAuthority, tlsServerName, user }),
      mode: 0o600,
      what: 'kubeconfig',
    },
  ];
  const written: string[] = [];
  for (const file of files) if ((await replaceFile(file)) === 'written') written.push(file.path);
  return written;
}

/**
 * Token of an account, from the Secret that kube-controller-manager fills. `rootCa`: the CAs by which
 * kube-controller-manager knows the API server (--root-ca-file). Throws KubeUnavailable when it is not filled in time.
 */
export async function readToken(
  account: Account,
  { api, namespace, clock }: Pick<CredentialOptions, 'api' | 'namespace' | 'clock'>,
) {
  const name = tokenSecretName(account);
  const path = objectPath({ kind: 'secret', namespace, name });
  const look = async () => {
    const secret = await getIfPresent<Secret>(api, path);
    const { token = '', 'ca.crt': rootCa = '' } = secret?.data ?? {};
    if (token === '') return undefined;
    const ca = rootCa === '' ? undefined : Buffer.from(rootCa, 'base64');
    return { token: Buffer.from(token, 'base64').toString(), rootCa: ca };
  };
  const found = await poll(look, { forMs: tokenTimeoutMs, everyMs: pollMs, clock, signal: api.signal });
  if (found !== undefined) return found;
  throw new RecoveryError(
    'KubeUnavailable',
    `Cannot read the token in Secret "${namespace}/${name}": kube-controller-manager has not filled it; ` +
      'see that it runs, then run init again',
  );
}

/**
 * CA that signed the certificate for the recovery name. The syncer updates a published bundle when that CA is renewed,
 * so a bundle is preferred to a copy, which would lock us out then. Where the inventory leaves that certificate to
 * another controller, such as an OpenShift operator, the CAs next to the token must verify it.
 */
async function recoveryAuthority(
  { resolved, layout, store, api, clock, recoveryServerName }: CredentialOptions,
  directory: string,
  rootCa: Uint8Array | undefined,
): Promise<{ path: string; content?: Uint8Array }> {
  const bundles = recoveryBundles(resolved, recoveryServerName);
  for (const bundle of bundles) {
    const path = fileOf(bundle, caBundleKey, layout.certs);
    if (path !== undefined) return { path };
  }
  const [own] = bundles;
  if (own === undefined && rootCa !== undefined) {
    await requireVerified({ api, clock, recoveryServerName }, rootCa);
    return { path: join(directory, 'ca.crt'), content: rootCa };
  }
  const content = own && (await store.read(own.location, api.signal))?.entries[caBundleKey];
  if (content !== undefined) return { path: join(directory, 'ca.crt'), content };
  const wanted = own === undefined ? `a serving certificate for "${recoveryServerName}"` : locationText(own.location);
  throw new RecoveryError(
    'InventoryInvalid',
    `Cannot write kubeconfig: ${wanted} is missing, so nothing could verify the API server`,
  );
}

/** Throws InventoryInvalid when kube-controller-manager has other CAs only, KubeUnavailable when nothing is served. */
async function requireVerified(
  { api, clock, recoveryServerName }: Pick<CredentialOptions, 'api' | 'clock' | 'recoveryServerName'>,
  rootCa: Uint8Array,
): Promise<void> {
  const address = serverAddress(new URL(api.connection.server));
  const { verified, message } = await proveServed({
    ...address,
    serverName: recoveryServerName,
    expected: '',
    trust: { bundles: [wholeCertificates(rootCa)], names: [recoveryServerName] },
    clock,
    signal: api.signal,
  });
  if (verified === true) return;
  if (verified === undefined) throw new RecoveryError('KubeUnavailable', `Cannot write kubeconfig: ${message}`);
  throw new RecoveryError(
    'InventoryInvalid',
    `Cannot write kubeconfig: the CAs that kube-controller-manager puts beside tokens do not verify what ` +
      `${address.host} serves as "${recoveryServerName}"; its --root-ca-file must hold the CA of that certificate`,
  );
}

/** Bundles that hold the signer of the recovery name's certificate, the narrowest first. */
function recoveryBundles({ artefacts }: Resolved, serverName: string): ResolvedArtefact[] {
  const serving = artefacts.find(
    (one) => one.kind === 'target' && one.usage !== 'client' && one.hostnames.includes(serverName),
  );
  const holding = new Set<string>();
  const found: ResolvedArtefact[] = [];
  for (const artefact of artefacts) {
    const holds =
      (artefact.kind === 'caBundle' && serving?.kind === 'target' && artefact.signers.includes(serving.issuer ?? '')) ||
      (artefact.kind === 'composedBundle' && artefact.inputs.some((input) => holding.has(input))) ||
      (artefact.kind === 'copy' && holding.has(artefact.of));
    if (!holds) continue;
    holding.add(artefact.name);
    found.push(artefact);
  }
  return found;
}
