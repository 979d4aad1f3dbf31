// One machine of a control plane, as a container: switched on and off, frozen and thawed, looked into and damaged.
import { execFile, spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { getContainerRuntimeClient, type StartedTestContainer } from 'testcontainers';
import { eventually } from '../eventually.ts';
import { NodeContainer, programPath } from './container.ts';
import { freezeContainer, thawContainer } from './stand-still.ts';
import type { Workshop } from './workshop.ts';

const run = promisify(execFile);

export const beforeKubelet = `${programPath} --mode=regen --once --preset=kubeadm`;
export const serviceCommand = `${beforeKubelet} --restart`;

export interface NodeOptions {
  readonly name: string;
  readonly workshop: Workshop;
  readonly network: string;
  readonly address: string;
  /** Boots systemd as PID 1 instead of a script in its role. */
  readonly systemd?: boolean;
}

export interface Outcome {
  readonly code: number;
  readonly output: string;
}

/** Moments of the last boot in milliseconds since the epoch. */
export interface BootTimes {
  readonly start: number;
  readonly runtime: number;
  /** Start and end of the command before the first start of the kubelet, and that start: where the script runs them. */
  readonly command: number | undefined;
  readonly recovered: number | undefined;
  readonly kubelet: number | undefined;
}

export class Node {
  readonly name: string;
  readonly #network: string;
  readonly #container: StartedTestContainer;
  #address: string;
  #removed = false;

  private constructor({ name, address, network }: NodeOptions, container: StartedTestContainer) {
    this.name = name;
    this.#address = address;
    this.#network = network;
    this.#container = container;
  }

  /** Makes the machine and switches it on; resolves when its container runtime has all images. */
  static async create(options: NodeOptions): Promise<Node> {
    const container = new NodeContainer({
      ...options,
      command: options.systemd === true ? ['/usr/local/bin/machine', 'systemd'] : ['/usr/local/bin/machine'],
      environment: { RECOVERY_BEFORE_KUBELET: beforeKubelet, RECOVERY_SERVICE: serviceCommand },
    });
    const node = new Node(options, await container.start());
    await node.runtimeReady();
    return node;
  }

  async runtimeReady(): Promise<void> {
    await eventually(() => this.sh('test -e /run/machine/runtime-ready'), { everyMs: 200 });
  }

  /** Runs a shell script on the machine; it ends after a minute at the latest, unless told otherwise. */
  async run(script: string, { seconds = 60 }: { readonly seconds?: number } = {}): Promise<Outcome> {
    const { exitCode, output } = await this.#container.exec(['timeout', String(seconds), 'sh', '-c', script]);
    return { code: exitCode, output };
  }

  /** Like `run`, but a failure rejects with what was said. */
  async sh(script: string, options: { readonly seconds?: number } = {}): Promise<string> {
    const { code, output } = await this.run(script, options);
    if (code !== 0) throw new Error(`${this.name}: exit code ${code} of: ${script}\n${output}`);
    return output;
  }

  /** The power goes away: everything on the machine ends at once, its disks stay. */
  async off(): Promise<void> {
    await (await this.#docker()).kill();
    await (await this.#docker()).wait();
  }

  async on(): Promise<void> {
    await (await this.#docker()).start();
  }

  get address(): string {
    return this.#address;
  }

  /** It has another address from its next start on. It is off. */
  async moveTo(address: string): Promise<void> {
    const { dockerode } = (await getContainerRuntimeClient()).container;
    const network = dockerode.getNetwork(this.#network);
    const Container = this.#container.getId();
    await network.disconnect({ Container, Force: true });
    await network.connect({ Container, EndpointConfig: { IPAMConfig: { IPv4Address: address } } });
    this.#address = address;
  }

  /** Every process stands still, and the clock goes on: what a suspended machine looks like afterwards. */
  async freeze(): Promise<void> {
    await freezeContainer(this.#container.getId());
  }

  async thaw(): Promise<void> {
    await thawContainer(this.#container.getId());
  }

  /** The machine is gone for good, with its disks. */
  async remove(): Promise<void> {
    if (this.#removed) return;
    this.#removed = true;
    await this.thaw(); // where a test failed meanwhile: what stands still does not end
    await (await this.#docker()).remove({ force: true, v: true });
  }

  async bootTimes(): Promise<BootTimes> {
    const text = await this.sh('cat /run/machine/times');
    const first = (what: string): number | undefined => {
      const found = new RegExp(`^${what} (\\d+)$`, 'm').exec(text)?.[1];
      return found === undefined ? undefined : Number(found);
    };
    const [start, runtime] = [first('start'), first('runtime')];
    if (start === undefined || runtime === undefined) throw new Error(`${this.name} has not booted: ${text}`);
    return { start, runtime, command: first('command'), recovered: first('recovered'), kubelet: first('kubelet') };
  }

  /** The ends of its logs, to find out why it does not come up. */
  async journal(): Promise<string> {
    const logs = '/var/log/recovery.log /var/log/containerd.log /var/log/kubelet.log';
    const script = `ps -ef; ctr -n k8s.io tasks list; tail -n 40 ${logs}; tail -n 15 /var/log/pods/kube-[sc]*/*/*.log`;
    const units = 'journalctl --no-pager -n 40 -u kube-cert-recovery.service -u kubelet.service';
    return (await this.run(`${script}; command -v journalctl > /dev/null && ${units}`)).output;
  }

  async read(path: string): Promise<string> {
    return this.sh(`cat '${path}'`);
  }

  /** Copies a file or a directory of the machine, on or off, into a temporary directory, links as links; returns its path. */
  async copyOut(path: string): Promise<string> {
    const directory = await mkdtemp(join(tmpdir(), 'node-files-'));
    const archive = join(directory, '.archive.tar');
    // Whole before tar reads it: tar ends at the last block of an archive of 10240 bytes, while the answer still lasts.
    await pipeline(await (await this.#docker()).getArchive({ path }), createWriteStream(archive));
    await run('tar', ['-C', directory, '-xf', archive]);
    await rm(archive);
    return join(directory, basename(path));
  }

  /** Puts what lies in a directory of ours into one of the machine, on or off: modes as here, owner root. */
  async copyIn(from: string, to: string): Promise<void> {
    // Files only: the directories of the machine keep their modes.
    const script = 'cd "$1" && find . ! -type d -print0 | tar --owner=0 --group=0 -cf - --null -T -';
    const tar = spawn('sh', ['-c', script, 'sh', from], { stdio: ['ignore', 'pipe', 'inherit'] });
    await (await this.#docker()).putArchive(tar.stdout, { path: to });
  }

  /**
   * The same for files below / of a machine that runs: a process that watches one sees it replaced and never absent, without
   * which kube-apiserver gives up watching for a minute (dynamiccertificates).
   */
  async renameIn(from: string): Promise<void> {
    const incoming = '/var/lib/machine/incoming';
    await this.sh(`mkdir ${incoming}`);
    await this.copyIn(from, incoming);
    await this.sh(`cd ${incoming} && find . ! -type d -exec sh -c 'mv "$1" "/$1"' sh {} \\; && rm -r ${incoming}`);
  }

  /** Has a script run at the next start, before everything else. The machine may be off. */
  async atBoot(script: string): Promise<void> {
    await withScratch(async (scratch) => {
      await writeFile(join(scratch, 'at-boot'), script);
      await this.copyIn(scratch, '/var/lib/machine');
    });
  }

  async #docker() {
    const client = await getContainerRuntimeClient();
    return client.container.dockerode.getContainer(this.#container.getId());
  }
}

/** A temporary directory that goes away with `work`. */
export async function withScratch<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), 'node-'));
  try {
    return await work(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
