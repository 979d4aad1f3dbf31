// One more than is read of what others write: of those readers whose own tests do not feed it.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { askReady } from '../lib/adopt/container-state.ts';
import { canonicalAddresses } from '../lib/approver/addresses.ts';
import { bounds } from '../lib/bounds.ts';
import { publishedAuthority } from '../lib/kube/cluster-info.ts';
import { expanded, shellCommands } from '../lib/inventory/discover/shell-script.ts';
import { parsePrivateKey } from '../lib/pki/key.ts';
import { encodePem, readPem } from '../lib/pki/pem.ts';
import { presentedChain } from '../lib/pki/presented.ts';
import { leafOfPair } from '../lib/plan/gather-offers.ts';
import { proveEtcdHealth } from '../lib/proof/etcd-health.ts';
import { createAuthority, createLeaf, type Pair } from './support/certificates/certificates.ts';

let root: string;
let ca: Pair;
let server: Server | undefined;
beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'bounds-'));
  ca = await createAuthority(join(root, 'ca'), { commonName: 'ca' });
});
afterEach(() => void server?.close());
afterAll(() => rmSync(root, { recursive: true }));

/** A text that no server sends. */
const endless = 'x'.repeat(1 << 20);

async function listen(one: Server): Promise<number> {
  server = one;
  await new Promise<void>((resolve) => one.listen(0, '127.0.0.1', resolve));
  return (one.address() as AddressInfo).port;
}

const { signal } = new AbortController();

describe('what is more than the bound', () => {
  it('of cluster-info is not parsed', () => {
    const { characters } = bounds.clusterInfo.most;
    const kubeconfig = 'a'.repeat(characters + 1);
    expect(publishedAuthority({ data: { kubeconfig } })).toEqual({
      problem: `its "kubeconfig" has ${characters + 1} characters, wanted ${characters} at most`,
    });
  });

  it('of the addresses of a Node is left out', () => {
    const all = Array.from({ length: 20_000 }, (_, at) => ({ address: `10.1.${at >> 8}.${at & 255}` }));
    expect(canonicalAddresses(all)).toHaveLength(bounds.addresses.most.addresses);
    expect(canonicalAddresses([null, 'text', { address: 1 }, { address: '10.1.2.3' }])).toEqual(['10.1.2.3']);
  });

  it('of a chain that is presented in a circle is not followed', () => {
    const circle: Record<string, unknown> = { toString: () => 'PEM;' };
    circle['issuerCertificate'] = circle;
    const socket = { getPeerX509Certificate: () => circle } as unknown as Parameters<typeof presentedChain>[0];
    expect(presentedChain(socket).split(';')).toHaveLength(bounds.presented.most.certificates + 1);
  });

  it('of the blocks of a PEM text is refused', () => {
    const { blocks } = bounds.pem.most;
    const block = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
    expect(readPem(Buffer.from(block.repeat(blocks)), 'it')).toHaveLength(blocks);
    expect(() => readPem(Buffer.from(block.repeat(blocks + 1)), 'it')).toThrow(`more than ${blocks} blocks`);
  });

  it('of a key is refused before it is parsed', () => {
    const { 'bytes in a key': bytes } = bounds.pem.most;
    const keyOf = (size: number): Buffer =>
      Buffer.from(encodePem({ label: 'PRIVATE KEY', der: Buffer.alloc(size, 1) }), 'latin1');
    expect(() => parsePrivateKey(keyOf(bytes + 1), 'it')).toThrow(`has more than ${bytes} bytes`);
    expect(() => parsePrivateKey(keyOf(bytes), 'it')).toThrow('is not a key');
  });

  it('of a shell script is not looked through, and of what its variables unfold to is left as it is written', () => {
    const { characters, unfolded } = bounds.script.most;
    const value = 'v'.repeat(unfolded / 2);
    const input = { variables: new Map([['A', value]]), parameters: [] };
    expect(shellCommands('kubelet $A $A $A', input)).toEqual([['kubelet', value, value, '$A']]);
    expect(shellCommands(`kubelet ${'x'.repeat(characters)}`, input)).toEqual([]);
    expect(expanded('$(A)$(A)$(A)', input.variables)).toBe(`${value}${value}$(A)`);
  });

  it('of the certificates of an offered pair is refused', () => {
    const { certificates } = bounds.offer.most;
    const pair = { certificate: Buffer.from(readFileSync(ca.cert, 'utf8').repeat(certificates + 1)), key: Buffer.of() };
    expect(() => leafOfPair(pair, 'it')).toThrow(`it has ${certificates + 1} certificates, at most ${certificates}`);
  });

  it('of an answer of etcd ends the connection', async () => {
    const names = { commonName: 'etcd', ipAddresses: ['127.0.0.1'], usages: ['serverAuth'] } as const;
    const { cert, key } = await createLeaf(join(root, 'etcd'), ca, names);
    const [leaf, leafKey, authority] = [cert, key, ca.cert].map((file) => readFileSync(file, 'utf8'));
    const port = await listen(
      createSecureServer({ cert: leaf, key: leafKey }, (_, response) => void response.write(endless)),
    );
    const client = { cert: leaf ?? '', key: leafKey ?? '' };
    const proof = await proveEtcdHealth({ host: '127.0.0.1', port, ca: authority ?? '', client, signal });
    expect(proof).toMatchObject({ state: 'unproven', message: expect.stringContaining('too long') as string });
  });

  it('of an answer of our own container is not kept', async () => {
    const port = await listen(createServer((_, response) => void response.writeHead(500).end(`[-]${endless}`)));
    expect((await askReady(port, signal))?.length).toBeLessThan(bounds.readiness.most.characters + 100);
  });
});
