// What is in use on a node, with a real TLS server as its API server.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, type Server } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import type { Resolved } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { ask, type HeardFacts } from '../../lib/plan/gather-asked.ts';
import { keep } from '../../lib/plan/decision.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { kubeconfigOf } from '../support/certificates/kubeconfig.ts';

let directory: string;
let server: Server;
let ca: Pair;
let client: Pair;
let address: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'gather-asked-'));
  ca = await createAuthority(join(directory, 'ca'), { commonName: 'ca' });
  client = await createLeaf(join(directory, 'client'), ca, { commonName: 'system:node:worker-7' });
  const { cert, key } = await createLeaf(join(directory, 'serving'), ca, { commonName: 'serving', dnsNames: ['api'] });
  server = createServer({ cert: await readFile(cert), key: await readFile(key) });
  await new Promise<void>((done) => server.listen({ port: 0, host: '127.0.0.1' }, done));
  address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  server.close();
  await rm(directory, { recursive: true, force: true });
});

interface Asked {
  readonly heard: HeardFacts;
  readonly isAsked: boolean;
}

async function asked(at: string | undefined, asksUse?: true, more: Partial<Resolved> = {}): Promise<Asked> {
  const file = join(directory, 'kubelet.conf');
  await rm(file, { force: true });
  const cluster = { server: `https://${at}`, 'certificate-authority': ca.cert };
  const user = { 'client-certificate': client.cert, 'client-key': client.key };
  if (at !== undefined) await writeFile(file, kubeconfigOf(cluster, user));
  const resolved = { ...resolve(loadPreset('node-ca'), { directories: { kubernetesDir: directory } }), ...more };
  const { leaves: _leaves, ...verdict } = keep('StillUsed', '', new Date(0));
  const plan = { decisions: [{ artefact: 'kubelet.conf', ...verdict, asksUse }], recheckAt: new Date(0) };
  const heard: HeardFacts = {};
  const signal = AbortSignal.timeout(30_000);
  const isAsked = await ask(plan, heard, { resolved, clock: systemClock, signal });
  return { heard, isAsked };
}

describe('ask()', () => {
  it('asks nothing where no decision depends on it', async () => {
    expect(await asked(address)).toEqual({ heard: {}, isAsked: false });
  });

  it('reads what the kubelet and its API server show each other', async () => {
    const { heard } = await asked(address, true);
    const chains = heard.inUse !== undefined && 'chains' in heard.inUse ? heard.inUse.chains : [];
    expect(chains.map(({ what, chain: [leaf] }) => [what, leaf.facts.subject])).toEqual([
      [`the certificate of ${address}`, 'CN=serving'],
      [`the client certificate of ${directory}/kubelet.conf`, 'CN=system:node:worker-7'],
    ]);
  });

  it('says why where the server does not answer', async () => {
    const { heard } = await asked('127.0.0.1:1', true);
    expect(heard.inUse).toEqual({ problem: expect.stringContaining('ECONNREFUSED') as string });
  });

  it('does not know what is in use where the kubeconfig is absent: it may lie elsewhere', async () => {
    const problem = expect.stringContaining(`${directory}/kubelet.conf`) as string;
    expect(await asked(undefined, true)).toEqual({ heard: { inUse: { problem } }, isAsked: true });
  });

  it('does not know it where no kubeconfig of a kubelet is known', async () => {
    const { heard } = await asked(address, true, { artefacts: [] });
    expect(heard.inUse).toEqual({ problem: expect.stringContaining('no kubeconfig') as string });
  });
});
