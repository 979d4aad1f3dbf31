// A server that negotiates HTTP/2 and then says nothing, as one that was reset at that moment seems to.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, type TLSSocket } from 'node:tls';
import { expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';

it('a connection on which no SETTINGS come fails after the time for connecting, for a watch too', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'silent-'));
  const sockets: TLSSocket[] = [];
  const authority = await createAuthority(join(directory, 'ca'), { commonName: 'ca' });
  const leaf = await createLeaf(join(directory, 'leaf'), authority, {
    commonName: 'kube-apiserver',
    ipAddresses: ['127.0.0.1'],
    usages: ['serverAuth'],
  });
  const options = { cert: readFileSync(leaf.cert), key: readFileSync(leaf.key), ALPNProtocols: ['h2'] };
  const server = createServer(options, (socket) => {
    sockets.push(socket.on('error', () => undefined));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const kubeconfigFile = await writeKubeconfig(join(directory, 'kubeconfig'), {
    server: `https://127.0.0.1:${port}`,
    certificateAuthority: authority.cert,
    token: 'abc',
  });
  const connection = await openConnection({
    kubeconfigFile,
    userAgent: 'test',
    clock: systemClock,
    connectTimeoutMs: 300,
    // Else silence would be noticed by unanswered PINGs, and hide what this is about.
    pingMs: 600_000,
  });
  try {
    const watch = connection.watch('/api/v1/namespaces/n/secrets?watch=true', {
      silenceMs: 600_000,
      signal: new AbortController().signal,
    });
    await expect(watch[Symbol.asyncIterator]().next()).rejects.toMatchObject({
      code: 'KubeUnavailable',
      message: expect.stringContaining('the server said nothing for 300 ms after the connection was opened'),
    });
  } finally {
    await connection.close();
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
    rmSync(directory, { recursive: true });
  }
});
