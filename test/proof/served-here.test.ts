import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import type { ResolvedArtefact } from '../../lib/inventory/model.ts';
import { proveServedHere } from '../../lib/proof/prove.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';

it('a server that hangs is asked once where one answer may take longer than all of the time', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'served-here-'));
  const sockets: Socket[] = [];
  const server = createServer((socket) => void sockets.push(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const ca = await createAuthority(join(directory, 'ca'), { commonName: 'ca' });
    const leaf = await createLeaf(join(directory, 'leaf'), ca, { commonName: 'kube-apiserver' });
    const artefact = {
      name: 'apiserver',
      kind: 'target',
      location: { kind: 'pemPair', certFile: leaf.cert, keyFile: leaf.key },
      hostnames: ['kubernetes'],
      readers: [{ component: 'kube-apiserver', needs: 'nothing', proof: { kind: 'served', serverName: 'kubernetes' } }],
    } as unknown as ResolvedArtefact;
    const proof = await proveServedHere(10, {
      resolved: { name: 'test', artefacts: [artefact] },
      store: createDiskStore(),
      connect: () => expect.unreachable(),
      apiServer: { host: '127.0.0.1', port: (server.address() as AddressInfo).port },
      clock: systemClock,
      signal: new AbortController().signal,
      hostName: 'node1',
    });
    expect(proof).toMatchObject({ state: 'unproven' });
    expect(sockets).toHaveLength(1);
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
    await rm(directory, { recursive: true });
  }
});
