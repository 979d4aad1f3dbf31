// Objects of the largest size that the API takes, as whoever may write them decides: the program as it is started, in a heap
// of 64 MB, against a real API server.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { toYaml } from '../../lib/yaml.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';
import { asRoot, unseen } from '../support/cluster/namespaces.ts';
import {
  type Content,
  createNamespace,
  type LogLine,
  type ObjectName,
  pairContent,
  putObject,
} from '../support/cluster/syncing.ts';
import { eventually } from '../support/eventually.ts';

const program = fileURLToPath(new URL('../../dist/kube-cert-recovery', import.meta.url));
/** The API allows 1 MiB in an object, of all entries together. */
const largest = 2 ** 20 - 1024;

let controlPlane: ControlPlane;
let scratch: string;
let authority: Pair;
beforeAll(async () => {
  controlPlane = await startControlPlane();
  scratch = mkdtempSync(join(tmpdir(), 'large-objects-'));
  authority = await createAuthority(join(scratch, 'ca'), { commonName: 'ca' });
});
afterAll(async () => {
  await controlPlane?.[Symbol.asyncDispose]();
  rmSync(scratch, { recursive: true, force: true });
});

interface Entry {
  readonly kind: 'opaque' | 'external';
  readonly name: string;
  readonly location: { readonly secret: string } | { readonly configMap: string };
  readonly published: 'required';
}

const entryOf = ({ kind, name }: ObjectName, is: Entry['kind'] = 'opaque'): Entry => ({
  kind: is,
  name,
  location: kind === 'secret' ? { secret: name } : { configMap: name },
  published: 'required',
});

/** The program as it is started, by these settings. */
class Running implements AsyncDisposable {
  readonly destinationDir: string;
  readonly #child: ChildProcess;
  readonly #logFile: string;
  readonly #ended: Promise<number | NodeJS.Signals | null>;

  constructor(settings: object) {
    const directory = mkdtempSync(join(scratch, 'run-'));
    const config = join(directory, 'config.yaml');
    const head = { apiVersion: 'kube-cert-recovery/v1alpha1', kind: 'Configuration' };
    writeFileSync(config, toYaml({ ...head, ...settings }));
    this.destinationDir = join(directory, 'certs');
    this.#logFile = join(directory, 'log');
    const log = openSync(this.#logFile, 'a', 0o600);
    const isSyncer = JSON.stringify(settings).includes('"syncer"');
    const flags = isSyncer ? ['--destination-dir', this.destinationDir] : [];
    const files = ['--config', config, '--kubeconfig', controlPlane.recoveryKubeconfig];
    this.#child = spawn(program, [...files, ...flags], { stdio: ['ignore', log, log] });
    closeSync(log);
    this.#ended = new Promise((resolve) => this.#child.once('exit', (code, signal) => resolve(code ?? signal)));
  }

  get log(): readonly LogLine[] {
    const lines = readFileSync(this.#logFile, 'utf8').split('\n');
    return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as LogLine);
  }

  /** The most that it has had in memory so far, in MB. */
  peak(): number {
    const [, kilobytes] = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${this.#child.pid}/status`, 'utf8')) ?? [];
    return Number(kilobytes) / 1024;
  }

  /** Resolves when this passes. Rejects when the program has ended. */
  async until(check: () => void | Promise<void>): Promise<void> {
    const ended = this.#ended.then((how) => {
      throw new Error(`it has ended (${how}): ${readFileSync(this.#logFile, 'utf8').slice(-2000)}`);
    });
    await Promise.race([eventually(check), ended]);
  }

  /** Resolves when every object has an entry on disk that begins so. */
  shows(objects: readonly ObjectName[], key: string, beginning: string): Promise<void> {
    return this.until(() => {
      const missing = objects.filter(({ kind, name }) => {
        const path = join(this.destinationDir, kind === 'secret' ? 'secrets' : 'configmaps', name, key);
        return !existsSync(path) || beginningOf(path, beginning.length) !== beginning;
      });
      expect(missing.map(({ name }) => name)).toEqual([]);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGTERM');
    await this.#ended;
  }
}

function beginningOf(path: string, length: number): string {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(length);
    return bytes.toString('latin1', 0, readSync(file, bytes, 0, length, 0));
  } finally {
    closeSync(file);
  }
}

const filled = (beginning: string, filler = 'x'): Content => ({ blob: beginning.padEnd(largest, filler) });

async function putAll(objects: readonly ObjectName[], content: Content): Promise<void> {
  for (let at = 0; at < objects.length; at += 4) {
    await Promise.all(objects.slice(at, at + 4).map((object) => putObject(controlPlane, object, content)));
  }
}

const publishing = (namespace: string, artefacts: readonly Entry[]): object => {
  return { modes: ['syncer'], namespace, inventory: { name: namespace, artefacts } };
};

describe('the syncer', () => {
  let usual: number;
  test('publishes sixty objects of a megabyte, and their changes', async () => {
    const namespace = await createNamespace(controlPlane, 'sixty');
    const objects = Array.from(
      { length: 60 },
      (_, at) => ({ kind: 'secret', namespace, name: `large-${at}` }) as const,
    );
    const entries = objects.map((object) => entryOf(object));
    await putAll(objects, { blob: 'one' });
    {
      await using syncer = new Running(publishing(namespace, entries));
      await syncer.shows(objects, 'blob', 'one');
      await putAll(objects, { blob: 'two' });
      await syncer.shows(objects, 'blob', 'two');
      usual = syncer.peak();
    }
    await putAll(objects, filled('three'));
    await using syncer = new Running(publishing(namespace, entries));
    await syncer.shows(objects, 'blob', 'three');
    for (const generation of ['four', 'five']) {
      await putAll(objects, filled(generation));
      await syncer.shows(objects, 'blob', generation);
    }
    rmSync(syncer.destinationDir, { recursive: true, maxRetries: 20 }); // it is being put back
    await syncer.shows(objects, 'blob', 'five');
    const peak = syncer.peak();
    console.log(`peak ${peak.toFixed()} MB, with small objects ${usual.toFixed()} MB`);
    expect(peak - usual).toBeLessThan(60);
  }, 900_000);

  test('lives with objects of the largest size, names what is of no use, and publishes the others', async () => {
    const namespace = await createNamespace(controlPlane, 'largest');
    const escaped = { kind: 'configMap', namespace, name: 'escaped' } as const; // JSON has six bytes for each
    const bundle = { kind: 'configMap', namespace, name: 'bundle' } as const;
    const annotated = { kind: 'secret', namespace, name: 'annotated' } as const;
    const pair = { kind: 'secret', namespace, name: 'pair' } as const;
    const content = pairContent(await createLeaf(join(scratch, 'leaf'), authority, { commonName: 'leaf' }));
    await putObject(controlPlane, escaped, filled('one', '<'));
    await putObject(controlPlane, bundle, { 'ca-bundle.crt': ''.padEnd(largest, '-----BEGIN CERTIFICATE-----\n') });
    await putObject(controlPlane, annotated, filled('one'));
    await putObject(controlPlane, pair, content);
    const artefacts = [entryOf(escaped), entryOf(annotated), entryOf(pair), entryOf(bundle, 'external')];
    await using syncer = new Running(publishing(namespace, artefacts));
    await syncer.shows([escaped, annotated], 'blob', 'one');
    await syncer.shows([pair], 'tls.key', '-----BEGIN');
    await putObject(controlPlane, escaped, filled('two', '<'));
    const path = `/api/v1/namespaces/${namespace}/secrets/${annotated.name}`;
    const body = { metadata: { annotations: { 'example.com/note': 'x'.repeat(250_000) } } };
    expect(await controlPlane.admin(path, { method: 'PATCH', body })).toMatchObject({ status: 200 });
    await putObject(controlPlane, annotated, filled('two'));
    await syncer.shows([escaped, annotated], 'blob', 'two');
    console.log(`largest: peak ${syncer.peak().toFixed()} MB, with small objects ${usual.toFixed()} MB`);
    expect(syncer.peak() - usual).toBeLessThan(60);
    expect(syncer.log.filter(({ level }) => level === 'error')).toEqual([]);
  }, 300_000);

  test('hears of changes of an object whose events are of the largest size, and publishes the others', async () => {
    const namespace = await createNamespace(controlPlane, 'events');
    const large = { kind: 'secret', namespace, name: 'large' } as const;
    const others = Array.from({ length: 10 }, (_, at) => ({ kind: 'secret', namespace, name: `small-${at}` }) as const);
    const all = [large, ...others];
    await putAll(all, { blob: 'zero' });
    await using syncer = new Running(
      publishing(
        namespace,
        all.map((object) => entryOf(object)),
      ),
    );
    await syncer.shows(all, 'blob', 'zero');
    const before = syncer.peak();
    for (const generation of ['one', 'two', 'three', 'four', 'five', 'six']) {
      await putBesideMetadata(namespace, large.name, generation);
      await putAll(others, { blob: generation });
      await syncer.shows(all, 'blob', generation);
    }
    console.log(`events: peak ${syncer.peak().toFixed()} MB, before ${before.toFixed()} MB`);
    expect(syncer.peak() - before).toBeLessThan(60);
    expect(syncer.log.filter(({ level }) => level === 'error')).toEqual([]);
  }, 300_000);
});

/** etcd takes 1.5 MiB; a watch of metadata would be told of six bytes for each character. */
async function putBesideMetadata(namespace: string, name: string, blob: string): Promise<void> {
  const owner = { apiVersion: 'v1', kind: 'Owner', uid: '1', name: '<'.repeat(1_500_000) };
  const body = { metadata: { name, ownerReferences: [owner] }, data: { blob: Buffer.from(blob).toString('base64') } };
  const path = `/api/v1/namespaces/${namespace}/secrets/${name}`;
  expect(await controlPlane.admin(path, { method: 'PUT', body })).toMatchObject({ status: 200 });
}

describe('regen', () => {
  /** A signer, its bundle and a certificate each. */
  const chains = (namespace: string): readonly object[] =>
    Array.from({ length: 20 }, (_, at) => {
      const lives = { validity: '60d', refresh: '30d' };
      const secret = (name: string) => ({ name: `${name}-${at}`, location: { secret: `${name}-${at}`, namespace } });
      const bundle = { name: `bundle-${at}`, location: { configMap: `bundle-${at}`, namespace } };
      return [
        { kind: 'signer', ...secret('signer'), ...lives },
        { kind: 'caBundle', ...bundle, signers: [`signer-${at}`] },
        { kind: 'target', ...secret('target'), ...lives, issuer: `signer-${at}`, usage: 'serving', hostnames: ['x'] },
      ];
    }).flat();

  /** All is made beside what others keep there; the most that it had in memory. */
  async function peakBeside(namespace: string, foreign: string): Promise<number> {
    await createNamespace(controlPlane, namespace);
    const secrets = Array.from({ length: 20 }, (_, at) => [`signer-${at}`, `target-${at}`]).flat();
    const bundles = Array.from({ length: 20 }, (_, at) => `bundle-${at}`);
    await putAll(
      [
        ...secrets.map((name) => ({ kind: 'secret', namespace, name }) as const),
        ...bundles.map((name) => ({ kind: 'configMap', namespace, name }) as const),
      ],
      { foreign },
    );
    await using regen = new Running({
      modes: ['regen'],
      inventory: { name: namespace, artefacts: chains(namespace) },
      regen: { keyAlgorithm: 'ecdsaP256' },
    });
    await regen.until(async () => {
      for (const name of secrets.filter((one) => one.startsWith('target'))) {
        const { body } = await controlPlane.admin(`/api/v1/namespaces/${namespace}/secrets/${name}`);
        const { data } = body as { readonly data: Readonly<Record<string, string>> };
        expect([name, Object.keys(data).toSorted()]).toEqual([name, ['foreign', 'tls.crt', 'tls.key']]);
      }
    });
    return regen.peak();
  }

  test('makes sixty objects beside a megabyte of somebody else in each, in at most 60 MB more', async () => {
    const usual = await peakBeside('beside-little', 'x');
    const peak = await peakBeside('beside-much', ''.padEnd(largest - 24 * 1024, 'x'));
    console.log(`regen: peak ${peak.toFixed()} MB, with small objects ${usual.toFixed()} MB`);
    expect(peak - usual).toBeLessThan(60);
  }, 900_000);
});

describe('a run on files of kubeadm', () => {
  const mostBytes = 4 * 2 ** 20;
  const filled4 = (line: string): string => line.repeat(Math.floor((mostBytes - 1) / line.length));

  /** Peak memory of a run in which a certificate is missing, sampled until the run ends. */
  async function peakOf(machine: KubeadmMachine): Promise<number> {
    rmSync(machine.path('pki/apiserver.crt'), { force: true });
    const script = `"$@" & p=$!; while kill -0 $p 2>/dev/null; do grep -h VmHWM /proc/$p/status; done 2>/dev/null | tail -1`;
    const own = [program, '--mode=regen', '--once', `--config=${await machine.configuration()}`];
    const words = [...asRoot, '--net', ...unseen, 'bash', '-c', script, 'bash', ...own];
    const { stdout } = await promisify(execFile)('unshare', words, { maxBuffer: 1 << 26 });
    expect(existsSync(machine.path('pki/apiserver.crt')), stdout).toBe(true);
    return Number(/(\d+) kB/.exec(stdout)?.[1]) / 1024;
  }

  test.each([
    ['a kubeconfig with many fields', 'scheduler.conf', 'key: v\n'],
    ['a kubeconfig with a long list', 'scheduler.conf', '- a\n'],
    ['a manifest', 'manifests/other.yaml', 'key: v\n'],
  ])('heals the others beside %s, as large as is read, in at most 60 MB more', async (_name, path, line) => {
    await using machine = await KubeadmMachine.create();
    mkdirSync(join(machine.root, 'var/lib/kubelet'), { recursive: true });
    const usual = await peakOf(machine);
    writeFileSync(machine.path(path), filled4(line), { mode: 0o600 });
    const peak = await peakOf(machine);
    console.log(`${path}: peak ${peak.toFixed()} MB, before ${usual.toFixed()} MB`);
    expect(peak - usual).toBeLessThan(60);
  });
});
