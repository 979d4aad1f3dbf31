// A Docker daemon for nodes in containers: the one that answers, else one of our own, which lives and dies with the test
// run, with all that it holds.
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, open, readdir, readFile } from 'node:fs/promises';
import { get } from 'node:http';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { eventually } from '../eventually.ts';
import type { Progress } from '../cluster/progress.ts';
import { asRoot } from './as-root.ts';
import { takeFirewall } from './firewall.ts';
import { cacheRoot } from '../cluster/go-build.ts';
import { removeTree } from './remove-tree.ts';
import { isRunAlive, type TestRun } from './test-run.ts';

const run = promisify(execFile);
const usualSocket = '/var/run/docker.sock';

export interface Docker {
  /** For DOCKER_HOST. */
  readonly host: string;
  /** Ends the daemon if it is our own. */
  stop(): Promise<void>;
}

/** Whether a daemon is at work there: one that ended leaves its socket behind, one that starts does not answer yet. */
function answers(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const sent = get({ socketPath, path: '/_ping', agent: false, signal: AbortSignal.timeout(2000) }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    sent.once('error', () => resolve(false));
  });
}

export async function findDocker(progress: Progress, testRun: TestRun, env = process.env): Promise<Docker> {
  const host = env['DOCKER_HOST'];
  if (host !== undefined && host !== '') return { host, stop: async () => undefined };
  if (await answers(usualSocket)) return { host: `unix://${usualSocket}`, stop: async () => undefined };
  return startDocker(progress, testRun);
}

async function startDocker(progress: Progress, { name: own }: TestRun): Promise<Docker> {
  const found = ['/usr/bin/dockerd', '/usr/sbin/dockerd', '/usr/local/bin/dockerd'].find(existsSync);
  if (found === undefined) {
    throw new Error(
      'Cannot start nodes: no Docker daemon answers and dockerd is not installed. Start Docker, or install it ' +
        '(Debian, Ubuntu: apt-get install docker.io) and run the same command again: it starts one of its own.',
    );
  }
  const homes = join(cacheRoot(), 'daemons');
  await mkdir(homes, { recursive: true });
  // Two runs at a time cannot share one; what a killed run has left goes away now.
  for (const name of await readdir(homes)) {
    if (await isRunAlive(name)) continue;
    await removeTree(runtimeOf(name));
    await removeTree(join(homes, name));
  }
  const home = join(homes, own);
  await mkdir(home, { recursive: true });
  const runtime = runtimeOf(own);
  const socket = `${runtime}/docker.sock`;
  // Its bridge would stay on this machine when it has gone. (testcontainers does not start without one.)
  const hadBridge = existsSync('/sys/class/net/docker0');
  const places = ['--data-root', join(home, 'data'), '--exec-root', `${runtime}/exec`];
  const args = ['--host', `unix://${socket}`, ...places];
  const logFile = join(home, 'dockerd.log');
  const log = await open(logFile, 'w');
  await run(...asRoot('mkdir', ['-p', runtime]));
  const firewall = await takeFirewall();
  const child = spawn(
    ...asRoot(found, [...args, '--pidfile', `${runtime}/pid`, '--group', String(process.getgid?.() ?? 0)]),
    {
      stdio: ['ignore', log.fd, log.fd],
      // A group of its own: Ctrl-C is for the test run, which ends the containers first.
      detached: true,
    },
  );
  const watchdog = endWithUs(child.pid ?? 0);
  await log.close();
  const stop = async (): Promise<void> => {
    await end(child);
    watchdog.kill('SIGKILL');
    if (!hadBridge) await run(...asRoot('ip', ['link', 'delete', 'docker0'])).catch(() => undefined); // never made
    // Two daemons use the same chains: the last one takes them away.
    if (!(await othersRun(homes, own))) await firewall.restore();
    // dockerd leaves mounted the network of this machine, which it made for containers in it.
    await removeTree(runtime);
    await removeTree(home);
  };
  try {
    await progress.during('starting a Docker daemon', () =>
      eventually(async () => {
        if (child.exitCode !== null) throw new Error(`dockerd ended: ${await tail(logFile)}`);
        if (!(await answers(socket))) throw new Error(`dockerd does not answer: ${await tail(logFile)}`);
      }),
    );
  } catch (err) {
    await stop();
    throw err;
  }
  return { host: `unix://${socket}`, stop };
}

/** The path of a Unix socket is limited to 107 bytes, that of a cache is not. */
function runtimeOf(testRun: string): string {
  return `/run/kube-cert-recovery-docker-${testRun}`;
}

async function othersRun(homes: string, own: string): Promise<boolean> {
  const others = (await readdir(homes)).filter((name) => name !== own);
  return (await Promise.all([...others.map(isRunAlive), answers(usualSocket)])).includes(true);
}

/** A shell that asks the daemon to end, and its containers with it, when this process is gone without having done so. */
function endWithUs(pid: number): ChildProcess {
  const [command, args] = asRoot('sh', ['-c', 'read -r _; kill -TERM "$1"', 'sh', String(pid)]);
  const watchdog = spawn(command, args, { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
  watchdog.stdin?.on('error', () => undefined);
  watchdog.unref();
  return watchdog;
}

async function tail(file: string): Promise<string> {
  return (await readFile(file, 'utf8')).trimEnd().split('\n').slice(-5).join('\n');
}

/** SIGTERM: dockerd ends its containers and its containerd. */
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const ended = once(child, 'exit');
  await run(...asRoot('kill', ['-TERM', String(child.pid)]));
  const forced = setTimeout(() => child.kill('SIGKILL'), 30_000);
  await ended;
  clearTimeout(forced);
}
