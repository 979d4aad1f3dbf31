// Servers of a kubeadm machine, and the certificate that each serves now. One handshake each, all in parallel, with a
// short timeout: a machine that is down is the usual case. A handshake verifies nothing and sends nothing.
import { isIP } from 'node:net';
import type { Clock } from '../clock.ts';
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { type Address, addressText, serverAddress } from '../address.ts';
import { addressesNow } from '../host/own-address.ts';
import { certificateOf, type Facts } from '../plan/facts.ts';
import { askLoopback, judgeLoopback, loopbackName } from '../proof/loopback.ts';
import { proveServed } from '../proof/served.ts';
import { type Found } from '../store/store.ts';
import type { ServedCertificate } from './node-report.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';

export interface LocalServer extends Address {
  readonly component: string;
  /** Artefacts that it may serve with, the likeliest first: the first existing one counts. */
  readonly artefacts: readonly string[];
  /** Client pair for the handshake, where unknown clients are refused. */
  readonly client?: string | undefined;
  /** Step that makes it read its file again. */
  readonly remedy: string;
}

const loopback = '127.0.0.1';
const staticPod = 'stop its container, the kubelet starts it again';

/** Servers from the readers in the inventory; the API server has the address in its manifest, and comes first. */
export function localServers({ endpoints, artefacts }: Resolved): readonly LocalServer[] {
  const local = endpoints?.local === undefined ? undefined : URL.parse(endpoints.local);
  const apiServer = local ? serverAddress(local) : { host: loopback, port: 6443 };
  const servers = new Map<string, LocalServer & { readonly isApiServer: boolean }>();
  // A superseded artefact is served only where its successor is absent.
  const byLikelihood = [...artefacts.filter((one) => !isSuperseded(one)), ...artefacts.filter(isSuperseded)];
  for (const { name, readers } of byLikelihood) {
    for (const { component, serves } of readers) {
      if (serves === undefined) continue;
      const { client, address } = serves;
      const host = address === 'loopback' ? loopback : apiServer.host;
      const { port = apiServer.port } = serves;
      const remedy = component === 'kubelet' ? 'restart the kubelet' : staticPod;
      const key = `${component} ${address} ${port}`;
      const names = [...(servers.get(key)?.artefacts ?? []), name];
      const isApiServer = serves.port === undefined;
      servers.set(key, { component, host, port, artefacts: names, client, remedy, isApiServer });
    }
  }
  return [...servers.values()].toSorted((one, other) => Number(other.isApiServer) - Number(one.isApiServer));
}

const isSuperseded = (artefact: ResolvedArtefact): boolean =>
  artefact.kind === 'target' && artefact.supersededBy !== undefined;

interface Asking {
  readonly facts: Facts;
  /** Holds keys: must not be logged or printed. */
  readonly found: ReadonlyMap<string, Found>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Ample: a handshake on the same machine takes a few milliseconds. */
const timeoutMs = 500;

/** Never rejects. A server without a readable certificate on disk is left out: there is nothing to compare with. */
export async function askServers(servers: readonly LocalServer[], asking: Asking): Promise<ServedCertificate[]> {
  const sights = await Promise.all(servers.map((server) => askServer(server, asking)));
  return sights.filter((sight) => sight !== undefined);
}

async function askServer(server: LocalServer, asking: Asking): Promise<ServedCertificate | undefined> {
  const { component, host, port, artefacts, client } = server;
  const { facts, clock, signal } = asking;
  const held = artefacts.map((name) => ({ name, certificate: certificateOf(facts.get(name)) }));
  const there = held.find(({ certificate }) => certificate !== undefined);
  if (there?.certificate === undefined) return undefined;
  const address = addressText(server);
  const silent = { component, address, artefact: there.name, state: 'unreachable' } as const;
  if (!isOfThisMachine(host)) {
    return { ...silent, message: `${host} is no address of this machine` };
  }
  const pair = client === undefined ? undefined : pairOf(client, asking);
  const { servedFingerprint, servedNotAfter, message } = await proveServed({
    host,
    port,
    serverName: host,
    expected: there.certificate.fingerprint,
    client: pair,
    timeoutMs,
    clock,
    signal,
  });
  if (servedFingerprint === undefined) return { ...silent, message };
  const met = held.find(({ certificate }) => certificate?.fingerprint === servedFingerprint);
  return {
    component,
    address,
    artefact: met?.name ?? there.name,
    state: met === undefined ? 'different' : 'same',
    notAfter: servedNotAfter,
    message: met === undefined ? `${message}; ${component} has not read its file again: ${server.remedy}` : message,
  };
}

/** Certificate that kube-apiserver has made for itself; empty where it does not answer. Never rejects. */
export async function askOwn(servers: readonly LocalServer[], asking: Asking): Promise<ServedCertificate[]> {
  const server = servers.find(({ component }) => component === 'kube-apiserver');
  if (server === undefined || !isOfThisMachine(server.host)) return [];
  const { host, port, component } = server;
  const { clock, signal } = asking;
  const certificate = await askLoopback({ host, port, timeoutMs, clock, signal });
  if (certificate === undefined) return [];
  const { notAfter } = certificate;
  const { state, restartsAt } = judgeLoopback(certificate, clock.now());
  const ends = `${state === 'EXPIRED' ? 'ended' : 'ends'} ${notAfter.toISOString()}`;
  const message = `${component} made it at its start for its requests to itself, which fail without it; it ${ends}: ${server.remedy}`;
  const own = { component, address: addressText(server), artefact: loopbackName, state: 'inMemory', notAfter } as const;
  return [{ ...own, message, ...(state !== 'OK' && { ends: state, restartsAt }) }];
}

/** An address that this machine has lost may belong to another machine, and is not contacted. */
const isOfThisMachine = (host: string): boolean =>
  isIP(host) === 0 || host === loopback || addressesNow().includes(host);

/** Certificate and key only if they match: our side would abort the handshake with any other pair. */
function pairOf(name: string, { facts, found }: Asking): { readonly cert: string; readonly key: string } | undefined {
  if (facts.get(name)?.state !== 'present') return undefined;
  const { [certificateKey]: cert, [privateKeyKey]: key } = found.get(name)?.entries ?? {};
  if (cert === undefined || key === undefined) return undefined;
  return { cert: Buffer.from(cert).toString(), key: Buffer.from(key).toString() };
}
