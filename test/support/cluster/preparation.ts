// Everything that lies on disk before the first component of a test control plane starts: ports that are remembered,
// the admin's token, kubeconfigs, certificates unless they come from elsewhere, and the flags that name all these.
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeAuditPolicy } from './audit.ts';
import { componentNames, ownPkiFlags, placeFlags, type ComponentName, type Flags, type Ports } from './components.ts';
import { writeKubeconfig } from '../certificates/kubeconfig.ts';
import { ensureOwnPki, type OwnPki } from './own-pki.ts';
import { freePorts } from './ports.ts';

export interface Preparation {
  readonly components: readonly ComponentName[];
  readonly flags?: Partial<Readonly<Record<ComponentName, Flags>>>;
  readonly ownPki?: boolean;
  readonly trust?: { readonly servingCa: string; readonly recoveryCa: string };
  readonly ports?: Ports;
  readonly unsafeNoFsync?: boolean;
  readonly audit?: boolean;
}

export interface Prepared {
  readonly directory: string;
  readonly components: readonly ComponentName[];
  readonly ports: Ports;
  readonly flags: Readonly<Record<ComponentName, Flags>>;
  readonly adminToken: string;
  readonly adminKubeconfig: string;
  readonly recoveryKubeconfig: string;
  readonly servingCa: string;
  readonly recoveryCa: string;
  readonly pki: OwnPki | undefined;
}

/** A free port for each thing that may listen. */
export async function choosePorts(): Promise<Ports> {
  const [etcd = 0, etcdPeer = 0, apiserver = 0, controllerManager = 0, scheduler = 0, sampleApiserver = 0] =
    await freePorts(6);
  return { etcd, etcdPeer, apiserver, controllerManager, scheduler, sampleApiserver };
}

async function rememberedPorts(directory: string): Promise<Ports> {
  const file = join(directory, 'ports.json');
  return existsSync(file) ? (JSON.parse(await readFile(file, 'utf8')) as Ports) : choosePorts();
}

/** The admin's token, made once for a directory. */
async function ensureToken(file: string): Promise<string> {
  if (!existsSync(file)) {
    const token = randomBytes(16).toString('hex');
    await writeFile(file, `${token},test-admin,test-admin,"system:masters"\n`, { mode: 0o600 });
  }
  return (await readFile(file, 'utf8')).split(',', 1)[0] ?? '';
}

export async function prepare(directory: string, options: Preparation): Promise<Prepared> {
  const ports = options.ports ?? (await rememberedPorts(directory));
  const tokenFile = join(directory, 'tokens.csv');
  const adminToken = await ensureToken(tokenFile);
  const pki = options.ownPki === false ? undefined : await ensureOwnPki(join(directory, 'pki'));
  const servingCa = options.trust?.servingCa ?? pki?.clusterCa.cert;
  const recoveryCa = options.trust?.recoveryCa ?? pki?.recoveryCa.cert;
  if (servingCa === undefined || recoveryCa === undefined) throw new Error('ownPki: false needs trust: which CAs?');

  const server = `https://127.0.0.1:${ports.apiserver}`;
  const adminKubeconfig = await writeKubeconfig(join(directory, 'admin.kubeconfig'), {
    server,
    certificateAuthority: servingCa,
    token: adminToken,
  });
  const recoveryKubeconfig = await writeKubeconfig(join(directory, 'recovery.kubeconfig'), {
    server,
    certificateAuthority: recoveryCa,
    tlsServerName: 'localhost-recovery',
    token: adminToken,
  });
  const audit = options.audit === true ? await writeAuditPolicy(directory) : undefined;
  const base = placeFlags({
    directory,
    ports,
    adminKubeconfig,
    tokenFile,
    unsafeNoFsync: options.unsafeNoFsync ?? true,
    audit,
  });
  const certificates = pki && ownPkiFlags(pki, await clientKubeconfigs(directory, server, pki));
  const flags = Object.fromEntries(
    componentNames.map((name) => [name, { ...base[name], ...certificates?.[name], ...options.flags?.[name] }]),
  ) as Record<ComponentName, Flags>;
  const components = componentNames.filter((name) => options.components.includes(name));
  return {
    directory,
    components,
    ports,
    flags,
    adminToken,
    adminKubeconfig,
    recoveryKubeconfig,
    servingCa,
    recoveryCa,
    pki,
  };
}

async function clientKubeconfigs(
  directory: string,
  server: string,
  pki: OwnPki,
): Promise<{ readonly controllerManager: string; readonly scheduler: string }> {
  const certificateAuthority = pki.trustBundle;
  return {
    controllerManager: await writeKubeconfig(join(directory, 'kube-controller-manager.kubeconfig'), {
      server,
      certificateAuthority,
      pair: pki.controllerManagerClient,
    }),
    scheduler: await writeKubeconfig(join(directory, 'kube-scheduler.kubeconfig'), {
      server,
      certificateAuthority,
      pair: pki.schedulerClient,
    }),
  };
}
