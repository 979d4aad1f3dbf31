// The twenty steps of the recovery flow of OpenShift's enhancement "automatic cert recovery for kube-apiserver and
// kube-controller-manager", each with the moment at which an adopted machine took it. What our containers did stands in
// their logs, what others did in the API and in TLS handshakes.
import { connect } from 'node:tls';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '../eventually.ts';
import type { Cluster } from './cluster.ts';
import { containerLog } from './container-log.ts';
import type { Node } from './node.ts';

export type Pod = 'kube-apiserver' | 'kube-controller-manager' | 'kube-scheduler';

export interface Line {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly pod: Pod;
  readonly event?: string;
  readonly mode?: string;
  readonly artefact?: string;
  readonly secret?: string;
  readonly lease?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly err?: string;
}

export interface Step {
  readonly number: number;
  readonly what: string;
  /** Milliseconds since power on; undefined: it was not taken. */
  readonly ms: number | undefined;
}

/** What our containers have written since then, by their own clock. */
export async function ownLog(node: Node, since: number): Promise<readonly Line[]> {
  return (await containerLog(node, 'kube-system_*/kube-cert-recovery/*.log', since)).flatMap(({ file, ...line }) => {
    const [, pod] = /^kube-system_(kube-[a-z-]+?)-[^-_]+_/.exec(file) ?? [];
    return pod === undefined ? [] : [{ ...line, pod: pod as Pod }];
  });
}

/** When the API server of a node first showed an expired certificate, and when a valid one, to who asks for that name. */
export class Handshakes {
  expired: number | undefined;
  valid: number | undefined;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  /** Without a name it shows what it shows to those that name nothing. */
  constructor(node: Node, servername = '') {
    this.#running = this.#watch(node, servername);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #watch({ address }: Node, servername: string): Promise<void> {
    while (!this.#stop.signal.aborted && this.valid === undefined) {
      const end = await endOfServed(address, servername);
      if (end !== undefined && end > Date.now()) this.valid = Date.now();
      else if (end !== undefined) this.expired ??= Date.now();
      await delay(50);
    }
  }
}

function endOfServed(host: string, servername: string): Promise<number | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, servername, port: 6443, rejectUnauthorized: false, timeout: 2000 });
    const done = (end?: number): void => {
      socket.destroy();
      resolve(end);
    };
    socket.once('secureConnect', () => done(Date.parse(socket.getPeerCertificate().valid_to)));
    socket.once('timeout', () => done());
    socket.once('error', () => done());
  });
}

interface Observed {
  readonly cluster: Cluster;
  readonly node: Node;
  readonly since: number;
  readonly handshakes: Handshakes;
  /** When the kubelet's request had its certificate. */
  readonly issued: number;
  /** Moments, of the Deployment that a test has made after the boot and of the node. */
  readonly podCreated: number;
  readonly podScheduled: number;
  readonly podRunning: number;
  readonly ready: number;
}

export async function stepsOf(seen: Observed): Promise<readonly Step[]> {
  const { cluster, node, since, handshakes } = seen;
  const log = await ownLog(node, since);
  const first = (pod: Pod, event: string, more: Partial<Line> = {}, after = since): number | undefined =>
    log.find((line) => {
      const same = Object.entries(more).every(([key, value]) => line[key as keyof Line] === value);
      return line.pod === pod && line.event === event && line.at >= after && same;
    })?.at;
  const written = (pod: Pod, name: string): number | undefined =>
    first(pod, 'sync.written', { secret: `kube-cert-recovery/${name}` });
  /** A certificate that has expired is in use, too, by its lease: what counts is the one that was written since. */
  const inUse = (pod: Pod, artefact: string): number | undefined =>
    first(pod, 'proof.succeeded', { artefact }, written(pod, artefact) ?? Infinity);
  const [kas, kcm, scheduler] = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const;
  const client = 'kube-controller-manager-client';
  const reloaded = inUse(kcm, client);
  const moments: readonly (readonly [string, number | undefined])[] = [
    ['kube-apiserver starts with expired certificates', handshakes.expired],
    ['its syncer reaches it by localhost-recovery', first(kas, 'watch.synced')],
    ['regen reaches it by localhost-recovery and reissues certificates', first(kas, 'target.regenerated')],
    ['its syncer writes them', first(kas, 'sync.written')],
    ['kube-apiserver serves the new one', handshakes.valid],
    ['kube-controller-manager starts with expired certificates', await started(node, kcm, since)],
    ['its syncer reaches kube-apiserver by localhost-recovery', first(kcm, 'watch.synced')],
    ['its client certificate is reissued', first(kas, 'target.regenerated', { artefact: client })],
    ['its syncer writes it', written(kcm, client)],
    ['kube-controller-manager uses it without a restart', reloaded],
    ['kube-controller-manager signs with the CSR signer on disk', seen.issued],
    ['both are up, with valid certificates', later(handshakes.valid, reloaded)],
    ['kube-controller-manager makes Pods', seen.podCreated],
    ["the kubelet's request is approved, by nobody's hand", first(kas, 'csr.approved')],
    ['the kubelet talks to kube-apiserver', await leaseRenewed(cluster, node)],
    ["kube-scheduler's syncer writes its client certificate", written(scheduler, 'kube-scheduler-client')],
    ['kube-scheduler uses it without a restart', inUse(scheduler, 'kube-scheduler-client')],
    ['kube-scheduler places Pods', seen.podScheduled],
    ['the node is Ready', seen.ready],
    ['the Pod of a Deployment runs', seen.podRunning],
  ];
  return moments.map(([what, at], index) => ({
    number: index + 1,
    what,
    ms: at === undefined || at < since ? undefined : at - since,
  }));
}

const later = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? undefined : Math.max(a, b);

/** When the present container of a component wrote its first line. */
async function started(node: Node, pod: Pod, since: number): Promise<number | undefined> {
  const text = await node.sh(`cd /var/log/pods && cat kube-system_${pod}-*/${pod}/*.log | cut -d' ' -f1`);
  return text
    .split('\n')
    .map((line) => Date.parse(line))
    .find((at) => at >= since);
}

interface Requests {
  readonly items?: readonly {
    readonly metadata: { readonly creationTimestamp: string };
    readonly spec: { readonly username: string };
    readonly status?: { readonly certificate?: string };
  }[];
}

/** When a request that was made since then had its certificate. */
export function kubeletIssued(
  cluster: Cluster,
  { since, withinMs, node = cluster.node }: { since: number; withinMs: number; node?: Node },
): Promise<number> {
  return eventually(
    async () => {
      const { body } = await cluster.api('/apis/certificates.k8s.io/v1/certificatesigningrequests', { node });
      const issued = ((body as Requests).items ?? []).some(
        // Told in whole seconds.
        ({ metadata, status }) =>
          Date.parse(metadata.creationTimestamp) >= since - 1000 && status?.certificate !== undefined,
      );
      if (!issued) throw new Error(`No request has a certificate: ${JSON.stringify(body)}`);
      return Date.now();
    },
    { withinMs, everyMs: 100 },
  );
}

/** Who has made the requests since then that have their certificate, each once. */
export async function kubeletRequesters(cluster: Cluster, since: number): Promise<readonly string[]> {
  const { body } = await cluster.api('/apis/certificates.k8s.io/v1/certificatesigningrequests');
  const issued = ((body as Requests).items ?? []).filter(
    ({ metadata, status }) =>
      Date.parse(metadata.creationTimestamp) >= since - 1000 && status?.certificate !== undefined,
  );
  return [...new Set(issued.map(({ spec }) => spec.username))];
}

async function leaseRenewed(cluster: Cluster, node: Node): Promise<number> {
  const path = `/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/${node.name}`;
  const { body } = await cluster.api(path, { node });
  return Date.parse((body as { spec: { renewTime: string } }).spec.renewTime);
}

export function stepsText(steps: readonly Step[]): string {
  return steps
    .map(({ number, what, ms }) => {
      const moment = ms === undefined ? 'MISSING' : `${(ms / 1000).toFixed(1)} s`;
      return `${String(number).padStart(3)}. ${moment.padStart(8)}  ${what}`;
    })
    .join('\n');
}
