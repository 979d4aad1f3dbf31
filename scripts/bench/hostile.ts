// Requests that nobody needs, 2,000 a minute of one kind, from an identity that may do nothing but ask for certificates; and
// beside them those of a kubelet, which are approved and signed. How long that kubelet waits, how late /livez answers, and
// how much memory the approver takes above what it has when idle. A bare watcher of rows, which reads no more than names,
// says when the API server delivers each request: what passes until then, no approver can change.
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { get } from 'node:http';
import { Agent, get as getSecure } from 'node:https';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expiredCertificateAnnotation, kubeletClientSigner } from '../../lib/bootstrap-identity.ts';
import { writeDer } from '../../lib/pki/der.ts';
import { names, requestOfForm, wish } from '../../test/support/certificates/request-forms.ts';
import { kubeletRequest } from '../../test/support/certificates/requests.ts';
import { apiRequest } from '../../test/support/cluster/api-client.ts';
import { ApproverWorld, csrCollection } from '../../test/support/cluster/approver-world.ts';
import { freePorts } from '../../test/support/cluster/ports.ts';
import type { Tool } from '../../test/support/cluster/recovery-world.ts';
import { memoryOf, until } from './probes.ts';
import type { Measured } from './table.ts';

const perMinute = 2000;
const askEveryMs = 500;
const senders = 8;
const mostKinds = 6;

interface Hostile {
  readonly name: string;
  readonly pem: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

type Kind = (at: number) => Hostile;

async function kindsOf(world: ApproverWorld): Promise<Readonly<Record<string, Kind>>> {
  const pem = await kubeletRequest('worker-1');
  const shown = await readFile(join(world.root, 'pki/kubelet-client-current.pem'), 'latin1');
  const list = Array.from({ length: 5500 }, (_, at) => writeDer(0x87, Buffer.of(10, 0, at >> 8, at & 255)));
  const manyNames = requestOfForm({ attributes: [wish(names(...list))] });
  const longName = await kubeletRequest('n'.repeat(52));
  const annotation = {
    [expiredCertificateAnnotation]: ' '.repeat(55_000) + shown.slice(0, shown.indexOf('-----BEGIN', 5)),
  };
  return {
    'padded PEM': (at) => ({ name: `junk-${at}`, pem: `${' '.repeat(44_000)}\n${pem}` }),
    'padded annotation': (at) => ({ name: `junk-${at}`, pem, annotations: annotation }),
    '5,500 names': (at) => ({ name: `junk-${at}`, pem: manyNames }),
    'long names': (at) => ({ name: `${'n'.repeat(245)}${at}`, pem: longName }),
    'names with commas': (at) => ({ name: `x-${at},metadata.name=x`, pem }),
    '1 MiB as sent': (at) => ({ name: `junk-${at}`, pem: `${' '.repeat(700_000)}\n${pem}` }),
  };
}

/** o */
export async function hostileLoad(seconds: number, say: (text: string) => void): Promise<Measured[]> {
  // A node is approved once in a while: each request is the first one of a node of its own.
  const nodes = Array.from({ length: mostKinds * (2 + (seconds * 1000) / askEveryMs) }, (_, at) => `node-${at}`);
  await using world = await ApproverWorld.create(`expectedNodes: [${nodes.join(', ')}]`);
  const rows: Measured[] = [];
  const kinds = Object.entries(await kindsOf(world));
  if (kinds.length > mostKinds) throw new Error(`${kinds.length} kinds, wanted ${mostKinds} at most`);
  for (const [kind, make] of kinds) {
    say(`  ${kind}`);
    rows.push(...(await beside(world, { kind, make, seconds, nodes })));
    await removeAll(world);
  }
  return rows;
}

/** Deletes all requests, ten at a time: the answer has the deleted ones, and a thousand of the largest are a gigabyte. */
async function removeAll({ controlPlane }: ApproverWorld): Promise<void> {
  for (let left = true; left;) {
    const { body } = await controlPlane.admin(`${csrCollection}?limit=10`, { method: 'DELETE' });
    left = ((body as { readonly items?: readonly unknown[] }).items ?? []).length > 0;
  }
}

interface Beside {
  readonly kind: string;
  readonly make: Kind;
  readonly seconds: number;
  /** Names of nodes; each request takes one. */
  readonly nodes: string[];
}

async function beside(world: ApproverWorld, { kind, make, seconds, nodes }: Beside): Promise<Measured[]> {
  const [port = 0] = await freePorts(1);
  const tool = world.start(`--health-probe-bind-address=127.0.0.1:${port}`);
  await approvedAt(tool, await askFor(world, nodes));
  await delay(5000);
  const idle = memoryOf(tool.pid).rss;
  const stop = new AbortController();
  const [live, above]: [number[], number[]] = [[], []];
  const watching = watch(port, stop.signal, live, () => above.push(memoryOf(tool.pid).rss - idle));
  const flooding = flood(world, make, stop.signal);
  const delivered = bareWatch(world, stop.signal);
  const waits = await kubelets(world, tool, { seconds, nodes }).finally(() => stop.abort());
  const [rate] = await Promise.all([flooding, watching]);
  await tool.stop();
  const seen = waits.filter(({ name }) => delivered.has(name)); // the server ends a watch that it finds too slow
  const deliveredAt = (name: string): number => delivered.get(name) ?? Number.NaN;
  const what = `${kind}, ${rate} a minute`;
  return [
    {
      what: `request to approval beside ${what}`,
      unit: 'ms',
      values: waits.map(({ asked, approved }) => approved - asked),
      goal: 'p99 < 2000',
    },
    {
      what: `request to a bare watcher beside ${what}`,
      unit: 'ms',
      values: seen.map(({ name, asked }) => deliveredAt(name) - asked),
    },
    {
      what: `bare watcher to approval beside ${what}`,
      unit: 'ms',
      values: seen.map(({ name, approved }) => approved - deliveredAt(name)),
    },
    { what: `/livez beside ${what}`, unit: 'ms', values: live, goal: '<= 1000' },
    { what: `RSS above idle beside ${what}`, unit: 'MB', values: above, goal: '<= 40' },
  ];
}

async function approvedAt(tool: Tool, name: string): Promise<number> {
  const isIt = ({ event, fields }: Tool['lines'][number]): boolean =>
    event === 'csr.approved' && fields['csr'] === name;
  await until(tool, (lines) => lines.some(isIt), 120_000);
  return tool.lines.find(isIt)?.at ?? Number.NaN;
}

/** Asks for the next of these nodes; the name of the request. */
async function askFor(world: ApproverWorld, nodes: string[]): Promise<string> {
  const node = nodes.pop();
  if (node === undefined) throw new Error('no node is left');
  await world.ask(`own-${node}`, node);
  return `own-${node}`;
}

/** Milliseconds of performance.now(). */
interface Asked {
  readonly name: string;
  readonly asked: number;
  readonly approved: number;
}

/** Each waits for its own, so that one which is late makes no other late. */
async function kubelets(
  world: ApproverWorld,
  tool: Tool,
  { seconds, nodes }: Pick<Beside, 'seconds' | 'nodes'>,
): Promise<readonly Asked[]> {
  const waits: Promise<Asked>[] = [];
  for (let at = 0; at < (seconds * 1000) / askEveryMs; at += 1) {
    const name = await askFor(world, nodes);
    const asked = performance.now();
    waits.push(approvedAt(tool, name).then((approved) => ({ name, asked, approved: Math.max(asked, approved) })));
    await delay(askEveryMs);
  }
  return Promise.all(waits);
}

/** Until the signal aborts; how many were taken a minute. */
async function flood(world: ApproverWorld, make: Kind, signal: AbortSignal): Promise<number> {
  const { port, recoveryCa: caFile } = world.controlPlane;
  const agent = new Agent({ keepAlive: true, maxSockets: senders });
  const target = { port, caFile, serverName: 'localhost-recovery', token: world.tokens.bootstrapper, agent };
  const began = performance.now();
  let next = 0;
  let sent = 0;
  const send = async (): Promise<void> => {
    while (!signal.aborted) {
      const at = next;
      next += 1;
      const early = (at * 60_000) / perMinute - (performance.now() - began);
      if (early > 0) await delay(early);
      const { name, pem, annotations = {} } = make(at);
      const request = Buffer.from(pem).toString('base64');
      const spec = { request, signerName: kubeletClientSigner, usages: ['digital signature', 'client auth'] };
      const { status, body } = await apiRequest(target, csrCollection, {
        method: 'POST',
        body: { metadata: { name, annotations }, spec },
      });
      if (status !== 201) throw new Error(`${name.slice(0, 40)}: ${status} ${JSON.stringify(body).slice(0, 300)}`);
      sent += 1;
    }
  };
  await Promise.all(Array.from({ length: senders }, send));
  agent.destroy();
  return Math.round((sent * 60_000) / (performance.now() - began));
}

/** When the first row of each request of a kubelet has arrived, by name; filled until the signal aborts. */
function bareWatch({ controlPlane, tokens }: ApproverWorld, signal: AbortSignal): ReadonlyMap<string, number> {
  const delivered = new Map<string, number>();
  const selector = encodeURIComponent(`spec.signerName=${kubeletClientSigner}`);
  const path = `${csrCollection}?includeObject=None&watch=true&resourceVersion=0&fieldSelector=${selector}`;
  const headers = {
    accept: 'application/json;as=Table;g=meta.k8s.io;v=v1',
    authorization: `Bearer ${tokens.approver}`,
  };
  const { port, recoveryCa } = controlPlane;
  const target = { host: '127.0.0.1', port, servername: 'localhost-recovery', ca: readFileSync(recoveryCa) };
  getSecure({ ...target, path, headers, signal }, (answer) => {
    let rest = '';
    answer.on('data', (piece: Buffer) => {
      const text = rest + piece.toString('latin1');
      for (const [, name = ''] of text.matchAll(/"(own-node-\d+)"/g)) {
        if (!delivered.has(name)) delivered.set(name, performance.now());
      }
      rest = text.slice(-64);
    });
    answer.on('error', () => undefined);
  }).on('error', () => undefined);
  return delivered;
}

async function watch(port: number, signal: AbortSignal, live: number[], look: () => void): Promise<void> {
  while (!signal.aborted) {
    const began = performance.now();
    await new Promise<void>((resolve, reject) => {
      get({ host: '127.0.0.1', port, path: '/livez', agent: false }, (answer) => {
        answer.resume().once('end', resolve);
      }).once('error', reject);
    });
    live.push(performance.now() - began);
    look();
    await delay(100);
  }
}
