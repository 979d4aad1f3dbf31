// Objects of the largest size that the API takes, as whoever may write them decides: the program as it is started, in a heap
// of 64 MB, against a real API server.
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, readSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { toYaml } from '../../lib/yaml.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
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

/** The program in mode syncer, which publishes these entries. */
class RunningSyncer implements AsyncDisposable {
  readonly destinationDir: string;
  readonly #child: ChildProcess;
  readonly #logFile: string;
  readonly #ended: Promise<number | NodeJS.Signals | null>;

  constructor(namespace: string, artefacts: readonly Entry[]) {
    const directory = mkdtempSync(join(scratch, 'run-'));
    const config = join(directory, 'config.yaml');
    const head = { apiVersion: 'kube-cert-recovery/v1alpha1', kind: 'Configuration', modes: ['syncer'], namespace };
    writeFileSync(config, toYaml({ ...head, inventory: { name: namespace, artefacts } }));
    this.destinationDir = join(directory, 'certs');
    this.#logFile = join(directory, 'log');
    const log = openSync(this.#logFile, 'a', 0o600);
    const files = ['--config', config, '--kubeconfig', controlPlane.recoveryKubeconfig];
    const stdio = ['ignore', log, log] as const;
    this.#child = spawn(program, [...files, '--destination-dir', this.destinationDir], { stdio: [...stdio] });
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

  /** Resolves when every object has an entry on disk that begins so. Rejects when the program has ended. */
  async shows(objects: readonly ObjectName[], key: string, beginning: string): Promise<void> {
    const ended = this.#ended.then((how) => {
      throw new Error(`it has ended (${how}): ${readFileSync(this.#logFile, 'utf8').slice(-2000)}`);
    });
    const shown = eventually(() => {
      const missing = objects.filter(({ kind, name }) => {
        const path = join(this.destinationDir, kind === 'secret' ? 'secrets' : 'configmaps', name, key);
        return !existsSync(path) || beginningOf(path, beginning.length) !== beginning;
      });
      expect(missing.map(({ name }) => name)).toEqual([]);
    });
    await Promise.race([shown, ended]);
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

describe('the syncer', () => {
  test('publishes sixty objects of a megabyte, and their changes', async () => {
    const namespace = await createNamespace(controlPlane, 'sixty');
    const objects = Array.from(
      { length: 60 },
      (_, at) => ({ kind: 'secret', namespace, name: `large-${at}` }) as const,
    );
    const entries = objects.map((object) => entryOf(object));
    await putAll(objects, { blob: 'one' });
    let usual: number;
    {
      await using syncer = new RunningSyncer(namespace, entries);
      await syncer.shows(objects, 'blob', 'one');
      await putAll(objects, { blob: 'two' });
      await syncer.shows(objects, 'blob', 'two');
      usual = syncer.peak();
    }
    await putAll(objects, filled('three'));
    await using syncer = new RunningSyncer(namespace, entries);
    await syncer.shows(objects, 'blob', 'three');
    for (const generation of ['four', 'five']) {
      await putAll(objects, filled(generation));
      await syncer.shows(objects, 'blob', generation);
    }
    rmSync(syncer.destinationDir, { recursive: true });
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
    await using syncer = new RunningSyncer(namespace, [
      entryOf(escaped),
      entryOf(annotated),
      entryOf(pair),
      entryOf(bundle, 'external'),
    ]);
    await syncer.shows([escaped, annotated], 'blob', 'one');
    await syncer.shows([pair], 'tls.key', '-----BEGIN');
    await putObject(controlPlane, escaped, filled('two', '<'));
    const path = `/api/v1/namespaces/${namespace}/secrets/${annotated.name}`;
    const body = { metadata: { annotations: { 'example.com/note': 'x'.repeat(250_000) } } };
    expect(await controlPlane.admin(path, { method: 'PATCH', body })).toMatchObject({ status: 200 });
    await putObject(controlPlane, annotated, filled('two'));
    await syncer.shows([escaped, annotated], 'blob', 'two');
    console.log(`peak ${syncer.peak().toFixed()} MB`);
    expect(syncer.log.filter(({ level }) => level === 'error')).toEqual([]);
  }, 300_000);
});
