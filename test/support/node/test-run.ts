// A test run as later ones know it, by whose name everything of it on this machine can be told: it listens on an abstract
// socket (unix(7)), which answers for exactly as long as its process lives, also across PID namespaces, in which two runs
// have the same numbers. Nothing of it is left behind.
import { randomBytes } from 'node:crypto';
import { createConnection, createServer } from 'node:net';

/** Label of containers and networks, and the variable by which the processes of a run know its name. */
export const runLabel = 'kube-cert-recovery.test-run';
const variable = 'KUBE_CERT_RECOVERY_TEST_RUN';

const socketOf = (name: string): string => `\0${runLabel}.${name}`;

export interface TestRun extends AsyncDisposable {
  readonly name: string;
}

/** From now on this process and those that it starts are one run. */
export async function beginTestRun(): Promise<TestRun> {
  const name = randomBytes(6).toString('hex');
  const server = createServer((asking) => asking.destroy());
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(socketOf(name), resolve);
  });
  server.unref();
  process.env[variable] = name;
  const end = (): Promise<void> => new Promise((resolve) => void server.close(() => resolve()));
  return { name, [Symbol.asyncDispose]: end };
}

/** Of this run. */
export const runLabels = (): Readonly<Record<string, string>> => ({ [runLabel]: process.env[variable] ?? 'none' });

export async function isRunAlive(name: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(socketOf(name), () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
