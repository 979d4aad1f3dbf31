// Whom a connection believes: servers whose certificate the kubeconfig's CA file vouches for, as Go's crypto/x509 takes
// such a file, and nobody else, whatever the environment says.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, afterAll, describe, expect, it, vi } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';

const signal = new AbortController().signal;
const path = '/api/v1/namespaces/n/secrets/a';
const names = { commonName: 'kube-apiserver', ipAddresses: ['127.0.0.1'], usages: ['serverAuth'] } as const;

let directory: string;
let root: Pair;
let intermediate: Pair;
/** Signed by the intermediate; by a CA that nobody knows. */
let leaf: Pair;
let impostor: Pair;
let server: Server | undefined;
let connection: KubeConnection | undefined;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'tls-'));
  root = await createAuthority(join(directory, 'root'), { commonName: 'corporate-root' });
  intermediate = await createAuthority(join(directory, 'intermediate'), { commonName: 'kubernetes', signer: root });
  leaf = await createLeaf(join(directory, 'leaf'), intermediate, names);
  const stranger = await createAuthority(join(directory, 'stranger'), { commonName: 'kubernetes' });
  impostor = await createLeaf(join(directory, 'impostor'), stranger, names);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await connection?.close();
  connection = undefined;
  server?.closeAllConnections();
  await new Promise((resolve) => (server === undefined ? resolve(undefined) : server.close(resolve)));
  server = undefined;
});
afterAll(() => rmSync(directory, { recursive: true }));

/** What a server with this certificate was told, and what the connection said of it. */
async function ask(serving: Pair, ca: Pair): Promise<{ readonly told: readonly string[]; readonly said: unknown }> {
  const told: string[] = [];
  server = createServer({ cert: readFileSync(serving.cert), key: readFileSync(serving.key) }, (request, response) => {
    told.push(`${request.url} ${request.headers.authorization}`);
    response.end(JSON.stringify({ kind: 'Secret', apiVersion: 'v1', metadata: { name: 'a', namespace: 'n' } }));
  });
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const access = { server: `https://127.0.0.1:${port}`, certificateAuthority: ca.cert, token: 'abc' };
  const kubeconfigFile = await writeKubeconfig(join(directory, 'kubeconfig'), access);
  connection = await openConnection({ kubeconfigFile, userAgent: 'test', clock: systemClock });
  const said = await connection.request({ method: 'GET', path, signal }).catch((err: unknown) => err);
  return { told, said };
}

describe('a connection', () => {
  it('tells an impostor nothing and believes nothing of it, also where NODE_TLS_REJECT_UNAUTHORIZED is 0', async () => {
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
    const { told, said } = await ask(impostor, root);
    expect(told).toEqual([]);
    expect(said).toMatchObject({ code: 'KubeUnavailable', details: { untrusted: true } });
  });

  it('takes every certificate of a CA file for a CA to trust, as Go does: also one that is not self-signed', async () => {
    expect(await ask(leaf, intermediate)).toMatchObject({
      told: [`${path} Bearer abc`],
      said: { metadata: { name: 'a' } },
    });
  });

  it('does not believe a server of another CA of the same name', async () => {
    const { told, said } = await ask(impostor, intermediate);
    expect(told).toEqual([]);
    expect(said).toMatchObject({ code: 'KubeUnavailable', details: { untrusted: true } });
  });
});
