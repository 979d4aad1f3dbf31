// Members of a real etcd in the layout of etcdadm: each has a directory of its own for its certificates, and an address of
// the loopback network. Clients and peers are asked for certificates.
import { chmod, chown, copyFile, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { connect } from 'node:tls';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readFileSync } from 'node:fs';
import { errorText } from '../../../lib/errors.ts';
import { createAuthority, createLeaf, type LeafOptions, type Pair } from '../certificates/certificates.ts';
import { findBinaries } from './binaries.ts';
import { freePorts } from './ports.ts';
import { SupervisedProcess } from './process.ts';

export interface EtcdMember {
  readonly name: string;
  readonly address: string;
  /** In place of `/`. */
  readonly root: string;
  readonly pki: string;
}

interface Options {
  /** Dates of every certificate but the CA's. */
  readonly notBefore: Date;
  readonly notAfter: Date;
  /** Of the CA, which begins with them. Default: ten years. */
  readonly caNotAfter?: Date;
  /** Below the root of each machine. Default: that of etcdadm. */
  readonly pkiDir?: string;
  /** Higher where a busy machine must cause no election. Default: etcd's own, a second. */
  readonly electionTimeoutMs?: number;
  /** Who runs etcd and has its files. Default: the user of the test. */
  readonly uid?: number;
}

const leaves = ['server', 'peer', 'etcdctl-etcd-client', 'apiserver-etcd-client'] as const;

function identityOf(leaf: (typeof leaves)[number], { name, address }: EtcdMember): Omit<LeafOptions, 'notBefore'> {
  if (leaf === 'server' || leaf === 'peer') {
    const names = { dnsNames: [name, 'localhost'], ipAddresses: [address, '127.0.0.1'] };
    return { commonName: name, ...names, usages: ['serverAuth', 'clientAuth'] };
  }
  const end = leaf === 'etcdctl-etcd-client' ? 'etcdctl' : 'kube-apiserver-etcd-client';
  return { commonName: `${name}-${end}`, organization: 'system:masters' };
}

export class EtcdMembers implements AsyncDisposable {
  readonly members: readonly EtcdMember[];
  readonly #root: string;
  readonly #ports: Readonly<Record<'client' | 'peer', number>>;
  readonly #uid: number | undefined;
  readonly #electionTimeoutMs: number;
  readonly #processes = new Map<string, SupervisedProcess>();
  readonly #etcd: string;

  private constructor(root: string, etcd: string, ports: readonly number[], options: Options) {
    const { uid, pkiDir = 'etc/etcd/pki', electionTimeoutMs = 1000 } = options;
    this.#root = root;
    this.#etcd = etcd;
    this.#uid = uid;
    this.#electionTimeoutMs = electionTimeoutMs;
    this.#ports = { client: ports[0] ?? 0, peer: ports[1] ?? 0 };
    this.members = [1, 2, 3].map((number) => {
      const own = join(root, `etcd-${number}`);
      return { name: `etcd-${number}`, address: `127.0.0.${10 + number}`, root: own, pki: join(own, pkiDir) };
    });
  }

  static async create(options: Options): Promise<EtcdMembers> {
    const root = await mkdtemp(join(tmpdir(), 'etcd-members-'));
    const there = (await findBinaries(['etcd'])).get('etcd') ?? '';
    // Where another user can execute it.
    const etcd = options.uid === undefined ? there : join(root, 'etcd');
    if (etcd !== there) await copyFile(there, etcd);
    const them = new EtcdMembers(root, etcd, await freePorts(2), options);
    const { notBefore, notAfter, uid, caNotAfter } = options;
    const life = { notBefore, ...(caNotAfter && { notAfter: caNotAfter }) };
    const ca = await createAuthority(join(root, 'ca'), { commonName: 'etcd CA', ...life });
    for (const member of them.members) {
      await mkdir(member.pki, { recursive: true });
      await place(ca, join(member.pki, 'ca'));
      for (const leaf of leaves) {
        const made = await createLeaf(join(root, 'leaf'), ca, { ...identityOf(leaf, member), notBefore, notAfter });
        await place(made, join(member.pki, leaf));
      }
      await writeFile(join(member.pki, '../etcd.env'), them.#environment(member));
      await mkdir(join(member.root, 'data'), { mode: 0o700 });
      if (uid === undefined) continue;
      for (const path of [
        member.pki,
        join(member.root, 'data'),
        ...(await readdir(member.pki)).map((name) => join(member.pki, name)),
      ])
        await chown(path, uid, uid);
    }
    // mkdtemp makes it for its owner alone; configurations below it must stay root's.
    if (uid !== undefined) await chmod(root, 0o711);
    return them;
  }

  /** Where a client asks it. */
  clientAddress({ address }: EtcdMember): { readonly host: string; readonly port: number } {
    return { host: address, port: this.#ports.client };
  }

  /** For --etcd-servers. */
  get clientUrls(): readonly string[] {
    return this.members.map((member) => this.#url(member, 'client'));
  }

  #url({ address }: EtcdMember, of: 'client' | 'peer'): string {
    return `https://${address}:${this.#ports[of]}`;
  }

  #environment(member: EtcdMember): string {
    return [
      `ETCD_NAME=${member.name}`,
      `ETCD_LISTEN_CLIENT_URLS=${this.#url(member, 'client')}`,
      `ETCD_ADVERTISE_CLIENT_URLS=${this.#url(member, 'client')}`,
      `ETCD_LISTEN_PEER_URLS=${this.#url(member, 'peer')}`,
      `ETCD_INITIAL_ADVERTISE_PEER_URLS=${this.#url(member, 'peer')}`,
      '',
    ].join('\n');
  }

  start(member: EtcdMember): void {
    const { name, root, pki } = member;
    const cluster = this.members.map((one) => `${one.name}=${this.#url(one, 'peer')}`).join(',');
    const file = (leaf: string): string => join(pki, leaf);
    const flags = [
      `--name=${name}`,
      `--data-dir=${join(root, 'data/member')}`,
      `--listen-client-urls=${this.#url(member, 'client')}`,
      `--advertise-client-urls=${this.#url(member, 'client')}`,
      `--listen-peer-urls=${this.#url(member, 'peer')}`,
      `--initial-advertise-peer-urls=${this.#url(member, 'peer')}`,
      `--initial-cluster=${cluster}`,
      '--client-cert-auth',
      '--peer-client-cert-auth',
      `--cert-file=${file('server.crt')}`,
      `--key-file=${file('server.key')}`,
      `--peer-cert-file=${file('peer.crt')}`,
      `--peer-key-file=${file('peer.key')}`,
      '--unsafe-no-fsync',
      `--election-timeout=${this.#electionTimeoutMs}`,
    ];
    const as = this.#uid === undefined ? [] : [`--reuid=${this.#uid}`, `--regid=${this.#uid}`, '--clear-groups'];
    const [command = '', ...args] = [...(as.length === 0 ? [] : ['setpriv', ...as]), this.#etcd, ...flags];
    const logFile = join(this.#root, `${name}.log`);
    // As its unit has it: etcdadm writes etcd.env, and no flag.
    const trusted = { ETCD_TRUSTED_CA_FILE: file('ca.crt'), ETCD_PEER_TRUSTED_CA_FILE: file('ca.crt') };
    const env = { ...process.env, ...trusted };
    this.#processes.set(name, new SupervisedProcess({ name, command, args, logFile, env }));
  }

  pidOf({ name }: EtcdMember): number | undefined {
    return this.#processes.get(name)?.pid;
  }

  logOf({ name }: EtcdMember): string {
    return this.#processes.get(name)?.logTail(500) ?? '';
  }

  /** In how many lines of all their logs that is. */
  count(what: RegExp): number {
    const lines = [...this.#processes.values()].flatMap((one) => one.logTail(1_000_000).split('\n'));
    return lines.filter((line) => what.test(line)).length;
  }

  async stop({ name }: EtcdMember): Promise<void> {
    await this.#processes.get(name)?.stop();
    this.#processes.delete(name);
  }

  /** Serial number of the certificate that a new connection meets, as Node writes it. */
  served({ address, pki }: EtcdMember, to: 'client' | 'peer'): Promise<string> {
    const read = (name: string): Buffer => readFileSync(join(pki, name));
    const pair = { ca: read('ca.crt'), cert: read('peer.crt'), key: read('peer.key') };
    return new Promise((resolve, reject) => {
      const socket = connect({ host: address, port: this.#ports[to], ...pair }, () => {
        resolve(socket.getPeerX509Certificate()?.serialNumber ?? 'none');
        socket.end();
      });
      socket.once('error', reject);
    });
  }

  /** What the member says of itself to a client with its own certificates: with a quorum it is healthy. */
  health(member: EtcdMember, client: string = 'etcdctl-etcd-client'): Promise<string> {
    return this.#ask(member, client, 'GET', '/health', '');
  }

  /** Through the gateway of the first API. Keys and values in base64. */
  put(member: EtcdMember, key: string, value: string): Promise<string> {
    return this.#ask(
      member,
      'apiserver-etcd-client',
      'POST',
      '/v3/kv/put',
      JSON.stringify({ key: base64(key), value: base64(value) }),
    );
  }

  /** Undefined where the key is not there. Throws where the member gave no answer, or another one than of its keys. */
  async get(member: EtcdMember, key: string): Promise<string | undefined> {
    return (await this.#range(member, { key: base64(key) })).get(key);
  }

  /** The value of each key that begins so. Throws as `get` does. */
  async all(member: EtcdMember, prefix: string): Promise<ReadonlyMap<string, string>> {
    const last = prefix.length - 1;
    const end = prefix.slice(0, last) + String.fromCharCode(prefix.charCodeAt(last) + 1);
    return this.#range(member, { key: base64(prefix), range_end: base64(end) });
  }

  async #range(member: EtcdMember, asked: object): Promise<ReadonlyMap<string, string>> {
    const text = await this.#ask(member, 'apiserver-etcd-client', 'POST', '/v3/kv/range', JSON.stringify(asked));
    // Without a leader a member answers with an error, which has no keys either.
    if (!text.includes('"revision"')) throw new Error(`${member.name} gave no keys: ${text}`);
    const { kvs = [] } = JSON.parse(text) as {
      readonly kvs?: readonly { readonly key: string; readonly value: string }[];
    };
    return new Map(kvs.map(({ key, value }) => [plain(key), plain(value)]));
  }

  #ask({ address, pki }: EtcdMember, client: string, method: string, path: string, body: string): Promise<string> {
    const read = (name: string): Buffer => readFileSync(join(pki, name));
    const pair = { ca: read('ca.crt'), cert: read(`${client}.crt`), key: read(`${client}.key`) };
    return new Promise<string>((resolve) => {
      const options = { host: address, port: this.#ports.client, method, path, ...pair, agent: false, timeout: 5000 };
      const asked = request(options, (answer) => {
        let text = '';
        answer.on('data', (part) => (text += String(part)));
        answer.once('end', () => resolve(text));
        answer.once('close', () => resolve('it ended in the middle of its answer')); // only where it has not ended
      });
      asked.once('timeout', () => asked.destroy(new Error('no answer')));
      asked.once('error', (err) => resolve(err.message));
      asked.end(body);
      // A client that reads the two files of its pair between their changes has no pair, as etcdctl would not.
    }).catch(errorText);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#processes.values()].map((each) => each.kill()));
    await rm(this.#root, { recursive: true, force: true });
  }
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');
const plain = (text: string): string => Buffer.from(text, 'base64').toString();

async function place({ cert, key }: Pair, base: string): Promise<void> {
  await copyFile(cert, `${base}.crt`);
  await copyFile(key, `${base}.key`);
}
