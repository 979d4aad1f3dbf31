// Free ports on 127.0.0.1, chosen outside the range that the kernel gives to outgoing connections (32768 and up):
// a control plane that is switched off for a while then finds its ports free when it is switched on again.
//
// No other test process takes them meanwhile: each that was chosen is claimed by a socket in the abstract name space
// (unix(7)), which one process can have and which goes with it, however it ends.
import { randomInt } from 'node:crypto';
import { createServer, type ListenOptions, type Server } from 'node:net';

const lowest = 17_000;
const highest = 32_000;

/** Undefined where another one listens. */
function listen(where: ListenOptions): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen({ ...where, exclusive: true }, () => resolve(server));
  });
}

async function isFree(port: number): Promise<boolean> {
  const server = await listen({ port, host: '127.0.0.1' });
  if (server === undefined) return false;
  await new Promise((resolve) => void server.close(resolve));
  return true;
}

/** False for those of this process, too. */
async function claim(port: number): Promise<boolean> {
  const server = await listen({ path: `\0kube-cert-recovery-test-port-${port}` });
  server?.unref();
  return server !== undefined;
}

/** `count` different ports that nothing listens on, for as long as this process lives. */
export async function freePorts(count: number): Promise<number[]> {
  const found: number[] = [];
  for (let attempt = 0; found.length < count; attempt += 1) {
    if (attempt > 1000)
      throw new Error(`Cannot find ${count} free ports between ${lowest} and ${highest} on 127.0.0.1`);
    const port = randomInt(lowest, highest);
    if ((await claim(port)) && (await isFree(port))) found.push(port);
  }
  return found;
}
