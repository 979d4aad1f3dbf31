// The program in its image, as a static pod would run it: no capabilities, nothing to write on but what is mounted, the
// network of the machine.
import { createInterface } from 'node:readline';
import { PassThrough, type Readable } from 'node:stream';
import { GenericContainer, getContainerRuntimeClient, PullPolicy, Wait } from 'testcontainers';
import { nodeImage } from './image.ts';
import { programReference } from './program-image.ts';
import { runLabels } from './test-run.ts';

export const hardened = {
  CapDrop: ['ALL'],
  NetworkMode: 'host',
  ReadonlyRootfs: true,
  SecurityOpt: ['no-new-privileges'],
} as const;

async function docker() {
  return (await getContainerRuntimeClient()).container.dockerode;
}

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs it to its end. Rejects when it cannot be started at all. */
export async function runProgram(args: readonly string[], entrypoint?: readonly string[]): Promise<Ended> {
  return runToEnd({
    Image: programReference,
    Cmd: [...args],
    ...(entrypoint !== undefined && { Entrypoint: [...entrypoint] }),
    HostConfig: { ...hardened, CapDrop: [...hardened.CapDrop], SecurityOpt: [...hardened.SecurityOpt] },
  });
}

/** Asked where it has number 1: its daemon may live in another PID namespace than we do. */
async function firstProcessOf(id: string): Promise<string> {
  const HostConfig = { PidMode: `container:${id}` };
  const { code, stdout, stderr } = await runToEnd({ Image: nodeImage, Cmd: ['cat', '/proc/1/status'], HostConfig });
  if (code !== 0) throw new Error(`/proc/1/status of container ${id}: ${stderr}`);
  return stdout;
}

type ContainerOptions = Parameters<Awaited<ReturnType<typeof docker>>['createContainer']>[0];

async function runToEnd(options: ContainerOptions): Promise<Ended> {
  const container = await (await docker()).createContainer({ ...options, Labels: runLabels() });
  try {
    const attached = await container.attach({ stream: true, stdout: true, stderr: true });
    const [out, err] = [new PassThrough(), new PassThrough()];
    container.modem.demuxStream(attached, out, err);
    attached.once('end', () => void [out, err].map((stream) => stream.end()));
    const texts = Promise.all([textOf(out), textOf(err)]);
    await container.start();
    const { StatusCode: code } = (await container.wait()) as { readonly StatusCode: number };
    const [stdout, stderr] = await texts;
    return { code, stdout, stderr };
  } finally {
    await container.remove({ force: true });
  }
}

async function textOf(stream: Readable): Promise<string> {
  return (await stream.setEncoding('utf8').toArray()).join('');
}

class ProgramContainer extends GenericContainer {
  constructor(args: readonly string[], directory: string) {
    super(programReference);
    // testcontainers has no method for a read-only root.
    Object.assign(this.hostConfig, hardened);
    this.withPullPolicy(PullPolicy.neverPull())
      .withNetworkMode('host')
      .withBindMounts([{ source: directory, target: directory }])
      .withLabels(runLabels())
      .withCommand([...args])
      .withWaitStrategy(Wait.forLogMessage('process.started'));
  }
}

/** A program that runs on. */
export interface ProgramRun extends AsyncDisposable {
  readonly id: string;
  /** Of its first process, where its daemon lives. */
  readonly pid: number;
  /** What the kernel tells of its first process (proc_pid_status(5)). */
  procStatus(): Promise<string>;
  /** What `docker logs` shows, line by line. */
  readonly lines: readonly string[];
  /** Sends SIGTERM. */
  stop(): Promise<{ readonly code: number; readonly afterMs: number }>;
}

/** `directory` is the only one that it can see and write, at the same path. */
export async function startProgram(args: readonly string[], directory: string): Promise<ProgramRun> {
  const lines: string[] = [];
  const started = await new ProgramContainer(args, directory)
    .withLogConsumer((stream) => void createInterface(stream).on('line', (line) => lines.push(line)))
    .start()
    .catch((err: unknown) => {
      throw new Error(`The program has not started in its container: ${lines.join('\n')}`, { cause: err });
    });
  const container = (await docker()).getContainer(started.getId());
  return {
    id: container.id,
    pid: (await container.inspect()).State.Pid,
    procStatus: () => firstProcessOf(container.id),
    lines,
    stop: async () => {
      const began = performance.now();
      await container.stop({ t: 30 });
      const afterMs = Math.round(performance.now() - began);
      return { code: (await container.inspect()).State.ExitCode, afterMs };
    },
    [Symbol.asyncDispose]: async () => void (await container.remove({ force: true })),
  };
}
