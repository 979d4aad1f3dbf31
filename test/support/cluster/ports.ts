// Free ports on 127.0.0.1, chosen outside the range that the kernel gives to outgoing connections (32768 and up):
// a control plane that is switched off for a while then finds its ports free when it is switched on again.
import { createServer } from 'node:net';
import { randomInt } from 'node:crypto';

const lowest = 17_000;
const highest = 32_000;

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/** `count` different ports that nothing listened on a moment ago. */
export async function freePorts(count: number): Promise<number[]> {
  const found = new Set<number>();
  for (let attempt = 0; found.size < count; attempt += 1) {
    if (attempt > 1000)
      throw new Error(`Cannot find ${count} free ports between ${lowest} and ${highest} on 127.0.0.1`);
    const port = randomInt(lowest, highest);
    if (!found.has(port) && (await isFree(port))) found.add(port);
  }
  return [...found];
}
