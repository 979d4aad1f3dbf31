// A kubeadm cluster of machines: made by the real kubeadm, asked by an admin whose certificate is not part of any test.
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { request } from 'node:https';
import { getContainerRuntimeClient } from 'testcontainers';
import { eventually } from '../eventually.ts';
import { kubeconfigOf } from '../certificates/kubeconfig.ts';
import { firewallRules } from './firewall.ts';
import {
  initConfiguration,
  joinConfiguration,
  type ClusterOptions,
  usualDirectory,
  usualPort,
} from './kubeadm-config.ts';
import { Node } from './node.ts';
import { runLabels } from './test-run.ts';
import type { Workshop } from './workshop.ts';

export interface ApiAnswer {
  readonly status: number;
  readonly body: unknown;
}

interface NodeObject {
  readonly status?: {
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly lastHeartbeatTime: string;
    }[];
  };
}

interface Credentials {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  /** Asked for and verified in place of the address. */
  readonly servername?: string;
}

const admin = '/var/lib/machine/test-admin';

/** A component that has failed waits up to five minutes for its next start: no slow machine is to be taken for a dead one. */
const limitMs = 900_000;

export interface CreateOptions extends ClusterOptions {
  readonly systemd?: boolean;
  /** Before kubeadm init: what an installer does around it. */
  readonly before?: (node: Node) => Promise<void>;
}

export class Cluster implements AsyncDisposable {
  readonly nodes: Node[] = [];
  readonly #workers = new Set<Node>();
  readonly #workshop: Workshop;
  readonly #network: Network;
  readonly #port: number;
  readonly #token = `${randomBytes(3).toString('hex')}.${randomBytes(8).toString('hex')}`;
  readonly #certificateKey = randomBytes(32).toString('hex');
  #credentials: Credentials | undefined;

  private constructor(workshop: Workshop, network: Network, port = usualPort) {
    this.#workshop = workshop;
    this.#network = network;
    this.#port = port;
  }

  /** One control plane, initialised and Ready. */
  static async create(workshop: Workshop, { before, systemd, ...options }: CreateOptions = {}): Promise<Cluster> {
    const cluster = new Cluster(workshop, await createNetwork(), options.port);
    try {
      const node = await cluster.#addNode(systemd);
      await before?.(node);
      const configuration = await initConfiguration({
        ...options,
        name: node.name,
        address: node.address,
        token: cluster.#token,
        certificateKey: cluster.#certificateKey,
      });
      await kubeadm(node, 'init --upload-certs', configuration);
      await cluster.#makeAdmin(node, options.certificatesDir);
      await cluster.ready(node);
      return cluster;
    } catch (err) {
      await cluster[Symbol.asyncDispose]();
      throw err;
    }
  }

  /** The first node. */
  get node(): Node {
    const [first] = this.nodes;
    if (first === undefined) throw new Error('The cluster has no node');
    return first;
  }

  /** Another control plane, with a member of etcd of its own. */
  async join(): Promise<Node> {
    const node = await this.#addNode();
    const configuration = joinConfiguration({
      name: node.name,
      address: node.address,
      endpoint: `${this.node.address}:${this.#port}`,
      token: this.#token,
      certificateKey: this.#certificateKey,
    });
    await kubeadm(node, 'join', configuration);
    await this.ready(node);
    return node;
  }

  /** A machine without control plane, which systemd boots. */
  async joinWorker(): Promise<Node> {
    const node = await this.#addNode(true);
    this.#workers.add(node);
    const endpoint = `${this.node.address}:${this.#port}`;
    const configuration = joinConfiguration({ name: node.name, address: node.address, endpoint, token: this.#token });
    await kubeadm(node, 'join', configuration);
    await this.ready(node);
    return node;
  }

  /** Has kubeadm renew every leaf of a node but the kubelet's for so short a time; the answer is when they have expired. */
  async renewForSeconds(seconds: number, node = this.node): Promise<Date> {
    const { body } = await this.api('/api/v1/namespaces/kube-system/configmaps/kubeadm-config');
    const { ClusterConfiguration: configuration = '' } = (body as { data: Record<string, string> }).data;
    const shortened = configuration.replace(
      /^certificateValidityPeriod: .*/m,
      `certificateValidityPeriod: ${seconds}s`,
    );
    const file = '/var/lib/machine/short-lived.yaml';
    await node.sh(`cat > ${file} <<'END'\n${shortened}\nEND\nkubeadm certs renew all --config=${file}`);
    return new Date(Date.now() + seconds * 1000);
  }

  async #addNode(systemd = false): Promise<Node> {
    const number = this.nodes.length + 1;
    const node = await Node.create({
      name: `node${number}`,
      workshop: this.#workshop,
      network: this.#network.name,
      address: `${this.#network.prefix}.${10 + number}`,
      systemd,
    });
    this.nodes.push(node);
    return node;
  }

  /** An admin certificate of ten years, signed with the cluster's CA: the tests' way in, whatever has expired. */
  async #makeAdmin(node: Node, directory = usualDirectory): Promise<void> {
    const ca = `${directory}/ca`;
    await node.sh(`openssl req -new -newkey rsa:2048 -nodes -keyout ${admin}.key -subj /O=system:masters/CN=test-admin |
      openssl x509 -req -CA ${ca}.crt -CAkey ${ca}.key -CAcreateserial -CAserial /tmp/serial -days 3650 > ${admin}.crt`);
    this.#credentials = {
      ca: await node.read(`${ca}.crt`),
      cert: await node.read(`${admin}.crt`),
      key: await node.read(`${admin}.key`),
    };
  }

  /** The administrator's of an adopted machine take their place: its CAs may have been replaced. */
  async useAdopted(recoveryDirectory: string, node = this.node): Promise<void> {
    const certs = `${recoveryDirectory}/kube-apiserver/certs`;
    this.#credentials = {
      ca: await node.read(`${certs}/configmaps/kube-apiserver-server-ca/ca-bundle.crt`),
      cert: await node.read(`${certs}/secrets/admin-client/tls.crt`),
      key: await node.read(`${certs}/secrets/admin-client/tls.key`),
    };
  }

  /** From now on the API server is known by that name and these CAs; the tests' admin stays who it is. */
  useServerName(servername: string, ca: string): void {
    if (this.#credentials === undefined) throw new Error('The cluster has no admin yet');
    this.#credentials = { ...this.#credentials, servername, ca };
  }

  /** PEM of the CAs by which the tests know the API server. */
  get ca(): string {
    return this.#credentials?.ca ?? '';
  }

  /** A kubeconfig of the tests' admin, for a connection of the program's own kind. */
  kubeconfig(node = this.node): string {
    const { ca, cert, key, servername } = this.#credentials ?? {};
    const data = (text = ''): string => Buffer.from(text).toString('base64');
    const server = `https://${node.address}:${this.#port}`;
    const name = servername === undefined ? {} : { 'tls-server-name': servername };
    return kubeconfigOf(
      { server, 'certificate-authority-data': data(ca), ...name },
      { 'client-certificate-data': data(cert), 'client-key-data': data(key) },
    );
  }

  /** A request to the API server of one node, which must show a certificate that its CA has signed for its address. */
  api(
    path: string,
    { node = this.node, method = 'GET', body, timeoutMs = 5000 }: ApiRequestOptions = {},
  ): Promise<ApiAnswer> {
    const contentType = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    return new Promise((resolve, reject) => {
      const sent = request(
        {
          ...this.#credentials,
          host: node.address,
          port: this.#port,
          path,
          method,
          agent: false,
          signal: AbortSignal.timeout(timeoutMs),
          headers: { accept: 'application/json', ...(body !== undefined && { 'content-type': contentType }) },
        },
        (response) => {
          let text = '';
          response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
          response
            .on('end', () => resolve({ status: response.statusCode ?? 0, body: parsed(text) }))
            .on('error', reject);
        },
      );
      sent.on('error', reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  /**
   * Resolves when the kubelet of `node` has reported Ready since that moment (its lease has been renewed too, so the
   * report is not an old one). The answer is when, in milliseconds since the epoch.
   */
  async ready(node = this.node, { since = 0, withinMs = limitMs, ...options }: ReadyOptions = {}): Promise<number> {
    const { via = this.#workers.has(node) ? this.node : node } = options;
    const isReady = eventually(
      async () => {
        const lease = await this.api(`/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/${node.name}`, {
          node: via,
        });
        const renewed = Date.parse((lease.body as { spec?: { renewTime?: string } }).spec?.renewTime ?? '');
        if (!(renewed > since))
          throw new Error(`${node.name} has not renewed its lease: ${JSON.stringify(lease.body)}`);
        const { body } = await this.api(`/api/v1/nodes/${node.name}`, { node: via });
        const ready = (body as NodeObject).status?.conditions?.find(({ type }) => type === 'Ready');
        // Heartbeats are told in whole seconds.
        if (ready?.status !== 'True' || Date.parse(ready.lastHeartbeatTime) < since - 1000)
          throw new Error(`${node.name} is not Ready: ${JSON.stringify(ready)}`);
        return Date.now();
      },
      { withinMs, everyMs: 50 },
    );
    return isReady.catch(async (err: unknown) => {
      const journals = [...new Set([node, via])].map((each) => each.journal().catch(String)); // one may be off
      throw new Error([String(err), ...(await Promise.all(journals))].join('\n'), { cause: err });
    });
  }

  /** Makes a Pod on `node`, which the scheduler places and the kubelet runs; gone again when it has run. */
  async runPod(node = this.node, { withinMs = limitMs } = {}): Promise<void> {
    const via = this.#workers.has(node) ? this.node : node;
    const name = `probe-${randomBytes(4).toString('hex')}`;
    const pods = '/api/v1/namespaces/default/pods';
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name },
      spec: {
        automountServiceAccountToken: false,
        nodeSelector: { 'kubernetes.io/hostname': node.name },
        terminationGracePeriodSeconds: 0,
        containers: [{ name: 'pause', image: 'registry.k8s.io/pause:3.10.1', imagePullPolicy: 'Never' }],
      },
    };
    await eventually(
      async () => {
        const { status, body } = await this.api(pods, { node: via, method: 'POST', body: pod });
        if (status !== 201) throw new Error(`The Pod was not made: ${JSON.stringify(body)}`);
      },
      { withinMs, everyMs: 200 },
    );
    await eventually(
      async () => {
        const { body } = await this.api(`${pods}/${name}`, { node: via });
        const { phase } = (body as { status?: { phase?: string } }).status ?? {};
        if (phase !== 'Running') throw new Error(`The Pod does not run: ${JSON.stringify(body)}`);
      },
      { withinMs, everyMs: 100 },
    );
    await this.api(`${pods}/${name}`, { node: via, method: 'DELETE' });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.remove()));
    await this.#network.remove();
  }
}

export interface ApiRequestOptions {
  readonly node?: Node;
  readonly method?: string;
  readonly body?: unknown;
  /** Default: 5000. */
  readonly timeoutMs?: number;
}

export interface ReadyOptions {
  /** Milliseconds since the epoch. */
  readonly since?: number;
  readonly withinMs?: number;
  /** Whose API server is asked. */
  readonly via?: Node;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

async function kubeadm(node: Node, command: string, configuration: string): Promise<void> {
  const file = '/var/lib/machine/kubeadm.yaml';
  await node.sh(`cat > ${file} <<'END'\n${configuration}\nEND`);
  const line = `kubeadm ${command} --config ${file} --ignore-preflight-errors=all 2>&1`;
  const { code, output } = await node.run(line, { seconds: 400 });
  // What kubeadm said comes last, where a log that was cut short still has it.
  if (code !== 0) throw new Error(`${await node.journal()}\n${node.name}: exit code ${code} of: ${line}\n${output}`);
}

interface Network {
  readonly name: string;
  /** The first three numbers of its addresses. */
  readonly prefix: string;
  remove(): Promise<void>;
}

/** A network with addresses that we give, so that a machine keeps its own. */
async function createNetwork(): Promise<Network> {
  const { dockerode } = (await getContainerRuntimeClient()).container;
  // Docker knows its own networks only, and another daemon may have made others. All addresses of this machine, also of
  // a network without members, which node:os does not list.
  const addresses = await readFile('/proc/net/fib_trie', 'utf8');
  // A network of a daemon that was killed has left a rule which would give other addresses to what these nodes send.
  const rules = await firewallRules('iptables');
  for (let third = 100; third < 120; third += 1) {
    const prefix = `172.30.${third}`;
    if (addresses.includes(` ${prefix}.`) || rules.includes(` ${prefix}.`)) continue;
    const name = `kcr-${randomBytes(3).toString('hex')}`;
    try {
      const network = await dockerode.createNetwork({
        Name: name,
        IPAM: { Config: [{ Subnet: `${prefix}.0/24` }] },
        Labels: runLabels(),
      });
      return { name, prefix, remove: () => network.remove() };
    } catch (err) {
      if (!/overlap/.test((err as Error).message)) throw err;
    }
  }
  throw new Error('Cannot make a network for nodes: 172.30.100.0/24 to 172.30.119.0/24 are all in use');
}
