// Where control-plane binaries come from. The commands `go` and `docker` on the PATH are small shell scripts here: real
// processes that fail or write a file, in a real cache directory.
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findBinaries } from './support/cluster/binaries.ts';
import type { BinaryName } from './support/cluster/components.ts';
import { createProgress } from './support/cluster/progress.ts';

let home: string;
let commands: string;
let said: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'binaries-'));
  commands = join(home, 'commands');
  await writeCommand('go', 'exit 127');
  await writeCommand('docker', 'exit 1');
  said = '';
});
afterEach(() => rm(home, { recursive: true }));

async function executable(path: string, text = '#!/bin/sh\n'): Promise<string> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
  await chmod(path, 0o755);
  return path;
}

const writeCommand = (name: string, script: string): Promise<string> =>
  executable(join(commands, name), `#!/bin/sh\n${script}\n`);

/** Go that notes its arguments and writes the output file; `extra` runs first. */
const workingGo = (extra = ''): Promise<string> =>
  writeCommand(
    'go',
    `[ "$1" = version ] && exit 0
    echo "$*" >> '${home}/go.log'
    while [ "$1" != -o ]; do shift; done
    ${extra}
    printf built > "$2"; chmod 755 "$2"`,
  );

function find(names: readonly BinaryName[], env: NodeJS.ProcessEnv = {}): Promise<ReadonlyMap<BinaryName, string>> {
  const out = new PassThrough();
  out.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const PATH = `${commands}:/usr/bin:/bin`;
  return findBinaries(names, { env: { PATH, XDG_CACHE_HOME: home, ...env }, progress: createProgress(out) });
}

const builds = async (): Promise<string[]> => (await readFile(join(home, 'go.log'), 'utf8')).trim().split('\n');

describe('findBinaries()', () => {
  it('takes what KUBEBUILDER_ASSETS has and looks on for what it lacks', async () => {
    const assets = join(home, 'assets');
    await executable(join(assets, 'etcd'));
    await workingGo();
    const found = await find(['etcd', 'kube-scheduler'], { KUBEBUILDER_ASSETS: assets });
    expect(found.get('etcd')).toBe(join(assets, 'etcd'));
    expect(found.get('kube-scheduler')).toMatch(
      new RegExp(`^${home}/kube-cert-recovery/controlplane/[0-9a-f]{16}/kube-scheduler$`),
    );
    expect(await builds()).toHaveLength(1);
  });

  it('builds with Go once, with the version set, and says what it does and for how long', async () => {
    await workingGo();
    const first = await find(['kube-apiserver', 'etcd']);
    expect(await readFile(first.get('etcd') ?? '', 'utf8')).toBe('built');
    const [apiserver, etcd] = await builds();
    expect(apiserver).toMatch(
      /^build -trimpath -ldflags .*gitVersion=v1\.\d+\.\d+ .* k8s\.io\/kubernetes\/cmd\/kube-apiserver$/,
    );
    expect(etcd).toMatch(/ go\.etcd\.io\/etcd\/server\/v3$/);
    expect(said).toMatch(/^building kube-apiserver v1\S+ with Go \(about 4 minutes, once\) \.\.\.$/m);
    expect(said).toMatch(/^building kube-apiserver .* \.\.\. 0 s, done$/m);

    said = '';
    expect(await find(['kube-apiserver', 'etcd'])).toEqual(first);
    expect(await builds()).toHaveLength(2);
    expect(said).toBe('');
  });

  it('goes on where a failed build stopped, and leaves no part of it', async () => {
    await workingGo(`case "$2" in */etcd) printf half > "$2"; echo 'no space left' >&2; exit 1;; esac`);
    await expect(find(['kube-scheduler', 'etcd'])).rejects.toThrow(
      'Cannot build etcd with Go in test/controlplane: no space left',
    );
    expect(said).toMatch(/^building etcd .* failed$/m);
    await workingGo();
    const found = await find(['kube-scheduler', 'etcd']);
    expect(await readFile(found.get('etcd') ?? '', 'utf8')).toBe('built');
    expect((await builds()).filter((line) => line.endsWith('kube-scheduler'))).toHaveLength(1);
    expect((await readdir(dirname(found.get('etcd') ?? ''))).toSorted()).toEqual(['etcd', 'kube-scheduler']);
  });

  it('takes images when a daemon and the registry answer, and builds what no image has', async () => {
    await writeCommand(
      'docker',
      `case "$1" in create) echo abc;; cp) [ "$2" = abc:/usr/local/bin/etcd ] || exit 1; printf image > "$3";; esac`,
    );
    await workingGo();
    const found = await find(['etcd', 'sample-apiserver', 'kubectl']);
    expect(await readFile(found.get('etcd') ?? '', 'utf8')).toBe('image');
    expect(await builds()).toHaveLength(2);
    expect(said).toMatch(/^pulling registry\.k8s\.io\/etcd:3\S+-0 \.\.\.$/m);
    expect(said).toMatch(/^registry\.k8s\.io\/kubectl:v\S+ did not bring kubectl: /m);
  });

  it('says what to install when nothing brings a binary', async () => {
    const found = findBinaries(['etcd'], { env: { PATH: commands, XDG_CACHE_HOME: home }, go: ['go'] });
    await expect(found).rejects.toThrow(
      /^Cannot find etcd v3\S+: it is not in KUBEBUILDER_ASSETS, not in the cache \(.*\),[^]*install Go 1\.25[^]*Docker[^]*set KUBEBUILDER_ASSETS/,
    );
  });

  it("fails with the compiler's words when Go is too old", async () => {
    await writeCommand('go', '[ "$1" = version ] && exit 0; echo "go.mod requires go >= 1.25" >&2; exit 1');
    await expect(find(['etcd'])).rejects.toThrow(
      'Cannot build etcd with Go in test/controlplane: go.mod requires go >= 1.25',
    );
  });

  it('builds once when two ask at the same time', async () => {
    await workingGo('sleep 0.3');
    const [first, second] = await Promise.all([find(['etcd']), find(['etcd'])]);
    expect(first).toEqual(second);
    expect(await builds()).toHaveLength(1);
    expect(said).toMatch(
      new RegExp(`^waiting for the control-plane binaries that process ${process.pid} is building`, 'm'),
    );
  });

  it('takes over the lock of a process that died', async () => {
    await workingGo();
    const path = (await find(['etcd'])).get('etcd') ?? '';
    const lock = join(dirname(path), 'lock');
    await mkdir(lock);
    await utimes(lock, new Date(0), new Date(0));
    expect((await find(['kubectl'])).has('kubectl')).toBe(true);
    expect(await readdir(dirname(path))).not.toContain('lock');
  });
});
