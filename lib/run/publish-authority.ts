// After a CA of this node was renewed with its own key, it goes to the approver on this machine, whose copy is no file
// of the inventory, and into kube-public/cluster-info, from which joining machines and workers that follow take it. A
// node replaces a CA that its own CA succeeds, with the same key. The other fields stay unchanged; signatures for join
// tokens, which cover the whole kubeconfig, are made again by kube-controller-manager (pkg/controller/bootstrap,
// bootstrapsigner). A timer runs each minute, so the CA seen is noted (/run): the API is read when the CA of this node
// has changed, and once a day, in case another client has put the former CA back. Reading takes no credential, and no
// identity is signed where nothing is to be written.
import { readFile } from 'node:fs/promises';
import type { RegenConfig } from '../config/mode-settings.ts';
import { replaceFile } from '../disk/files.ts';
import { errorFields, errorText, isCode } from '../errors.ts';
import { RunState } from '../host/state.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import { signerOf } from '../issue/host-credential.ts';
import {
  type ClusterInfo,
  clusterInfoKey,
  clusterInfoPath,
  clusterInfoText,
  publishedAuthority,
} from '../kube/cluster-info.ts';
import { readServer } from '../kubeconfig/credentials.ts';
import { approverAuthorityFile, defaultDirectory } from '../install/layout.ts';
import type { Log } from '../log.ts';
import { type Certificate, wholeCertificates } from '../pki/certificate.ts';
import { ownCertificate } from '../pki/signer-certificate.ts';
import { succeededBy } from '../pki/successor.ts';
import type { Store } from '../store/store.ts';
import { type HostIdentity, unlessStarting } from './host-identity.ts';
import type { Runtime } from './runtime.ts';
import { nextCommand } from '../next-command.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { updateObject } from '../kube/objects.ts';
import { editYaml } from '../yaml.ts';

const timeoutMs = 5_000;

interface ClusterInfoKeeping {
  readonly mode: Pick<RegenConfig, 'lockDir' | 'restart'>;
  readonly identity: HostIdentity;
  /** The files of this host. */
  readonly store: Store;
  readonly runtime: Runtime;
}

/** Never rejects: machines that join later are none of this machine's faults. */
export async function publishRenewed({ mode, identity, store, runtime }: ClusterInfoKeeping): Promise<void> {
  const { clock, log, resolved, signal } = runtime;
  const now = clock.now();
  const state = new RunState(mode.lockDir);
  try {
    const signer = signerOf(identity.kubeconfig, resolved);
    const entries = signer && (await store.read(signer.location, signal))?.entries;
    const bytes = entries?.[certificateKey];
    const own = bytes && ownCertificate(bytes, entries?.[privateKeyKey]);
    if (own === undefined || now < own.facts.notBefore || now >= own.facts.notAfter) return;
    await giveToApprover(own, log).catch(async (err: unknown) => {
      const fields = { path: approverAuthorityFile(defaultDirectory), err: errorText(err) };
      if (await state.isNews('approver-authority', fields.err, now)) log.warn('authority.failed', fields);
    });
    if (!mode.restart) return; // the API may not be there yet: a kubelet waits for this run
    await state.whenDue('cluster-info', own.facts.fingerprint, { ...pace, clock }, () =>
      publish(own, { identity, runtime }).catch((err: unknown) => {
        if (signal.aborted) return 'open';
        failed(log, err); // such as a CA whose key is elsewhere: the next run would meet the same error
        return 'failed';
      }),
    );
  } catch (err) {
    if (!signal.aborted) failed(log, err);
  }
}

const pace = { againMs: 24 * 3_600_000, afterFailureMs: 3_600_000 };

function failed(log: Log, err: unknown, state = '', advice = ''): 'failed' {
  const { err: text, code } = errorFields(err);
  log.warn('clusterInfo.failed', { message: clusterInfoText, err: `${state}${text}${advice}`, code });
  return 'failed';
}

async function giveToApprover(own: Certificate, log: Log): Promise<void> {
  const path = approverAuthorityFile(defaultDirectory);
  const bytes = await readFile(path).catch(() => undefined);
  const next = bytes && succeededBy(wholeCertificates(bytes), own);
  if (next === undefined) return;
  await replaceFile({ path, content: next.map(({ pem }) => pem).join(''), mode: 0o600, what: 'CA bundle' });
  log.info('authority.updated', { path, notAfter: own.facts.notAfter.toISOString() });
}

interface Looking {
  readonly identity: HostIdentity;
  readonly runtime: Runtime;
}

const grant = `grant it with "${nextCommand('init host')}" on a control-plane node`;

async function publish(own: Certificate, { identity, runtime }: Looking): Promise<'done' | 'failed' | 'open'> {
  const { clock, log, signal } = runtime;
  const { server, serverName } = await readServer(identity.kubeconfig);
  const { readPublicObject } = await import('../kube/public-object.ts');
  try {
    const how = { path: clusterInfoPath, server, serverName, anchors: [own], timeoutMs, clock, signal };
    const object = await unlessStarting(() => readPublicObject<ClusterInfo>(how), runtime);
    if (withRenewedAuthority(object, own) === undefined) return 'done';
  } catch (err) {
    // A cluster-info that anonymous users may not read is read by no joining machine.
    if (isCode(err, 'KubeNotFound', 'KubeForbidden', 'KubeUnauthorized')) return 'done';
    const isUntrusted = isCode(err, 'KubeUnavailable') && err.details['untrusted'] === true;
    if (!isUntrusted && isCode(err, 'KubeUnavailable', 'KubeWrongAnswer')) return 'open';
    return failed(log, err, `${clusterInfoText} cannot be read: `);
  }
  try {
    const outcome = await identity.asHost((connection) =>
      unlessStarting(() => updateClusterInfo({ connection, own, signal }), runtime),
    );
    if (outcome === 'written') {
      log.info('clusterInfo.updated', { message: clusterInfoText, notAfter: own.facts.notAfter.toISOString() });
    }
    return 'done';
  } catch (err) {
    if (isCode(err, 'KubeUnavailable')) return 'open';
    const isRight = isCode(err, 'KubeForbidden', 'KubeUnauthorized');
    const state = `${clusterInfoText} still has the CA that this node has renewed: `;
    return failed(log, err, state, isRight ? `; ${grant}` : '');
  }
}

/**
 * `own`: the CA of this machine. Pure. Undefined where it succeeds none of the published CAs, and where nothing is to
 * be changed.
 */
export function withRenewedAuthority(object: ClusterInfo, own: Certificate): ClusterInfo | undefined {
  const published = publishedAuthority(object);
  if ('problem' in published) return undefined; // not made by kubeadm
  const next = succeededBy(wholeCertificates(published), own);
  if (next === undefined) return undefined;
  const edit = editYaml(object.data?.[clusterInfoKey] ?? '');
  const authority = Buffer.from(next.map(({ pem }) => pem).join('')).toString('base64');
  edit.set(['clusters', 0, 'cluster', 'certificate-authority-data'], authority);
  return { ...object, data: { ...object.data, [clusterInfoKey]: edit.text() } };
}

interface ClusterInfoUpdate {
  readonly connection: Pick<KubeConnection, 'request'>;
  readonly own: Certificate;
  readonly signal: AbortSignal;
}

/**
 * Writes the renewed CA into cluster-info, which kube-controller-manager and other control-plane nodes write, too.
 * Throws errors of the connection.
 */
export const updateClusterInfo = ({
  own,
  ...request
}: ClusterInfoUpdate): Promise<'written' | 'unchanged' | 'absent'> =>
  updateObject<ClusterInfo>(request, clusterInfoPath, (object) => withRenewedAuthority(object, own));
