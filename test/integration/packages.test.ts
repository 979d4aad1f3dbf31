// The packages of a release, installed by the commands of docs/install.md as they are written, on a machine of kubeadm whose
// certificates have expired: no network, a root directory of its own. `--root` keeps dpkg and rpm in it.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { blocks, page, root as project, section } from '../docs/markdown.ts';
import { dated } from '../support/certificates/dated.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';
import { onMachine } from '../support/cluster/machine-shell.ts';
import { createProgress } from '../support/cluster/progress.ts';
import { buildRelease, releasedPackages } from '../support/release.ts';
import { inOrder } from './in-order.ts';

const run = promisify(execFile);
const { version } = JSON.parse(page('package.json')) as { readonly version: string };
const names = { amd64: ['amd64', 'x86_64'], arm64: ['arm64', 'aarch64'] } as const;
const own = process.arch === 'arm64' ? 'arm64' : 'amd64';
const elfMachine = { amd64: 0x3e, arm64: 0xb7 };

/** Lines of the shell below a heading of docs/install.md, for this machine's architecture. */
const typed = (heading: string): readonly string[] =>
  blocks(section(page('docs/install.md'), heading)).map(({ text }) =>
    text.replaceAll('amd64', own).replaceAll('x86_64', names[own][1]),
  );

interface Descriptor {
  readonly digest: string;
  readonly platform?: { readonly architecture: string };
}

/** Of an image in the layout of OCI: an index, a manifest, or a configuration. */
interface Blob {
  readonly manifests?: readonly Descriptor[];
  readonly layers?: readonly Descriptor[];
  readonly config?: Descriptor;
}

let scratch: string;
let machine: KubeadmMachine;
const release = (): string => join(scratch, 'release');
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'release-'));
  await cp(await releasedPackages(createProgress()), release(), { recursive: true });
  await buildRelease(`--out=${join(scratch, 'again')}`);
  machine = await KubeadmMachine.create();
  const wanted = ['var/lib/dpkg/updates', 'var/lib/dpkg/info', 'var/lib/kubelet', 'etc/systemd/system', 'stubs', 'opt'];
  for (const directory of [...wanted, 'usr/local/bin', 'bin', 'lib', 'lib64'])
    await mkdir(join(machine.root, directory), { recursive: true });
  await writeFile(join(machine.root, 'var/lib/dpkg/status'), '');
  const stubs = {
    dpkg: `exec /usr/bin/dpkg --root=${machine.root} --force-script-chrootless --force-depends "$@"`,
    rpm: `exec /usr/bin/rpm --root=${machine.root} --nodeps "$@"`,
    systemctl: 'exit 0',
  };
  for (const [name, command] of Object.entries(stubs))
    await writeFile(join(machine.root, 'stubs', name), `#!/bin/sh\n${command}\n`, { mode: 0o755 });
});
afterAll(async () => {
  await machine?.[Symbol.asyncDispose]();
  await rm(scratch, { recursive: true, force: true });
});

/** rpm runs the scripts of a package in the root directory, with the shell and the libraries of this machine. */
const place = (): string => `mkdir -p /run/systemd/system /etc/systemd/system
mkdir -p "$1/opt" # dpkg removes it where no other package has it
mount --bind "$1/etc/systemd/system" /etc/systemd/system
mount --bind "$1/opt" /opt
mount --bind "$1/usr/local/bin" /usr/local/bin
for part in bin lib lib64; do [ ! -e /$part ] || mount --bind /$part "$1/$part"; done
PATH="$1/stubs:/usr/local/bin:$1/usr/bin:/usr/sbin:/usr/bin:/sbin:/bin"
cd ${release()}
`;

/** All that a command has said. */
async function on(command: string, code = 0): Promise<string> {
  const { stdout, stderr, code: exit } = await onMachine(machine.root, command, { place: place() });
  expect(exit, `${command}\n${stdout}${stderr}`).toBe(code);
  return stdout + stderr;
}

async function expire(cert: string, ca: string): Promise<void> {
  const [path, key] = [machine.path(cert), await readFile(machine.path(ca), 'utf8')];
  const ago = (days: number): Date => new Date(Math.floor(Date.now() / 1000) * 1000 - days * 86_400_000);
  await writeFile(path, dated(await readFile(path, 'utf8'), key, ago(400), ago(1)));
}

describe('a release', () => {
  it('has the files that docs/install.md lists, with their sums', async () => {
    const files = [
      'SHA256SUMS',
      `kube-cert-recovery-${version}.cdx.json`,
      `kube-cert-recovery-${version}-oci.tar`,
      `kube-cert-recovery-${version}.intoto.json`,
      ...Object.values(names).flatMap(([debian, other]) => [
        `kube-cert-recovery-${version}-linux-${debian}.tar.gz`,
        `kube-cert-recovery_${version}-1_${debian}.deb`,
        `kube-cert-recovery-${version}-1.${other}.rpm`,
      ]),
    ];
    expect((await readdir(release())).toSorted()).toEqual(files.toSorted());
    const text = page('docs/install.md');
    for (const file of files.filter((name) => !/arm64|aarch64/.test(name))) expect(text).toContain(`\`${file}\``);
    const [verify = ''] = typed('Verify');
    expect((await on(verify)).match(/: OK$/gm)).toHaveLength(files.length - 1);
  });

  it('has the same bytes when it is built again', async () => {
    const sums = (directory: string): Promise<string> => readFile(join(directory, 'SHA256SUMS'), 'utf8');
    expect(await sums(join(scratch, 'again'))).toBe(await sums(release()));
  });

  it('states where its files come from', async () => {
    const text = await readFile(join(release(), `kube-cert-recovery-${version}.intoto.json`), 'utf8');
    const { subject, predicate } = JSON.parse(text) as {
      readonly subject: readonly { readonly name: string; readonly digest: { readonly sha256: string } }[];
      readonly predicate: { readonly buildDefinition: { readonly resolvedDependencies: readonly object[] } };
    };
    const lines = subject.map(({ name, digest }) => `${digest.sha256}  ${name}`);
    const sums = (await readFile(join(release(), 'SHA256SUMS'), 'utf8')).trim().split('\n');
    expect(sums.filter((line) => !line.endsWith('.intoto.json'))).toEqual(lines);
    const [commit, tree] = (await run('git', ['-C', project, 'rev-parse', 'HEAD', 'HEAD^{tree}'])).stdout.split('\n');
    const [source] = predicate.buildDefinition.resolvedDependencies;
    expect(source).toMatchObject({ digest: { gitCommit: commit, gitTree: tree } });
  });

  it('has an image for both architectures, whose blobs are what their names say, with all that Node is linked with', async () => {
    const layout = join(scratch, 'layout');
    await mkdir(layout);
    await run('tar', ['-xf', join(release(), `kube-cert-recovery-${version}-oci.tar`), '-C', layout]);
    const blob = (digest: string): string => join(layout, 'blobs', digest.replace(':', '/'));
    const read = async (digest: string): Promise<Blob> => JSON.parse(await readFile(blob(digest), 'utf8')) as Blob;
    const blobs = await readdir(join(layout, 'blobs/sha256'));
    const { stdout } = await run('sh', ['-c', 'cd "$0" && sha256sum *', join(layout, 'blobs/sha256')]);
    expect(stdout.trim().split('\n')).toEqual(blobs.toSorted().map((name) => `${name}  ${name}`));
    const top = JSON.parse(await readFile(join(layout, 'index.json'), 'utf8')) as Blob;
    const { manifests = [] } = await read(top.manifests?.[0]?.digest ?? '');
    expect(manifests.map(({ platform }) => platform?.architecture)).toEqual(['amd64', 'arm64']);
    for (const { digest, platform } of manifests) {
      const { layers = [], config } = await read(digest);
      expect(await read(config?.digest ?? '')).toMatchObject({ architecture: platform?.architecture });
      const root = join(scratch, `image-${platform?.architecture}`);
      await mkdir(root);
      for (const layer of layers) await run('tar', ['-xzf', blob(layer.digest), '-C', root]);
      const { stdout: linked } = await run('readelf', ['-d', join(root, 'usr/bin/node')]);
      const needed = [...linked.matchAll(/\(NEEDED\).*\[(.*)\]/g)].map(([, name = '']) => name);
      expect(needed.length).toBeGreaterThan(5);
      const files = (await readdir(root, { recursive: true })).map((path) => basename(path));
      expect(files).toEqual(
        expect.arrayContaining([
          ...needed,
          'kube-cert-recovery',
          'main.mjs',
          'THIRD-PARTY-NOTICES',
          'libc6',
          'gcc-12-base',
        ]),
      );
      if (platform?.architecture !== own) continue;
      const { stdout: told } = await run('chroot', [root, '/usr/bin/node', '/app/main.mjs', '--version']);
      expect(told).toContain(version);
    }
  });

  it.each(Object.entries(names))("for %s is root's alone, with Node for it", async (architecture, [debian, other]) => {
    const archive = join(release(), `kube-cert-recovery-${version}-linux-${debian}.tar.gz`);
    const listings = [
      await run('tar', ['-tvzf', archive]),
      await run('dpkg-deb', ['-c', join(release(), `kube-cert-recovery_${version}-1_${debian}.deb`)]),
      await run('rpm', ['-qlvp', join(release(), `kube-cert-recovery-${version}-1.${other}.rpm`)]),
    ];
    for (const { stdout } of listings) {
      const lines = stdout.trim().split('\n');
      expect(lines.filter((line) => !/^([-d]rw[-x]r-[-x]r-[-x]|l[-rwx]{9}) .*\broot\b.\s*root\b/.test(line))).toEqual(
        [],
      );
      expect(lines.filter((line) => line.startsWith('-rwx')).map((line) => line.split('/').at(-1))).toEqual([
        'kube-cert-recovery',
        'node',
      ]);
      expect(lines.filter((line) => line.endsWith('.code'))).toEqual([]);
      expect(lines.length).toBeGreaterThan(20);
    }
    const node = `kube-cert-recovery-${version}-linux-${debian}/node`;
    const { stdout: elf } = await run('sh', ['-c', 'tar -xOzf "$0" "$1" | head -c 20', archive, node], {
      encoding: 'buffer',
    });
    expect(elf.readUInt16LE(18)).toBe(elfMachine[architecture as keyof typeof elfMachine]);
  });

  it('lists in its bill of materials what the notices name, and both Nodes', async () => {
    const bill = JSON.parse(await readFile(join(release(), `kube-cert-recovery-${version}.cdx.json`), 'utf8')) as {
      readonly components: readonly {
        readonly group?: string;
        readonly name: string;
        readonly version: string;
        readonly purl: string;
      }[];
    };
    const folder = `kube-cert-recovery-${version}-linux-${own}`;
    const notices = `${folder}/app/THIRD-PARTY-NOTICES`;
    const { stdout } = await run('tar', ['-xOzf', join(release(), `${folder}.tar.gz`), notices]);
    const named = [...stdout.matchAll(/^={80}\n(\S+ \S+) \(/gm)].map(([, name]) => name ?? '');
    const listed = bill.components.map(({ group, ...one }) => `${group ? `${group}/` : ''}${one.name} ${one.version}`);
    expect(listed.filter((name) => name.startsWith('node-linux-'))).toHaveLength(2);
    expect(listed).toEqual(expect.arrayContaining(named));
    const debian = bill.components.filter(({ purl }) => purl.startsWith('pkg:deb/'));
    expect(listed).toHaveLength(named.length + 1 + debian.length);
    expect(debian).toHaveLength(8);
  });
});

describe('installed', () => {
  inOrder(() => '');
  const program = 'kube-cert-recovery';
  const versionLine = /^\d+\.\d+\.\d+ \(commit \S+, built \S+Z\)\n$/;

  const copy = `/opt/${program}/bin/${program}`;
  const units = (): string => join(machine.root, 'etc/systemd/system');

  it('from an archive has units that start a copy of it, which runs without a PATH, and repairs', async () => {
    const [install = '', remove = ''] = typed('Archive');
    const folder = `${program}-${version}-linux-${own}`;
    const told = await on(install);
    expect(told).toContain(`, copied from ${release()}/${folder}/${program}\n`);
    expect(await readFile(join(units(), 'kube-cert-recovery.service'), 'utf8')).toContain(
      `${copy} --mode=regen --once`,
    );
    await rm(join(release(), folder), { recursive: true });
    expect(await on(`PATH= ${copy} --version`)).toMatch(versionLine);
    await expire('pki/apiserver.crt', 'pki/ca.key');
    expect(await on(`PATH= /usr/local/bin/${program} status`, 3)).toMatch(/^apiserver .*<invalid>/m);
    await on(`PATH= ${copy} --mode=regen --once --preset=kubeadm`);
    expect(await on(`${program} status -o json`)).not.toContain('EXPIRED');
    expect(await on(`${program} init host`)).toMatch(/^Unchanged: \/opt/);
    expect(await on(remove)).toContain(`Removed ${copy}\n`);
    for (const directory of ['opt', 'usr/local/bin', 'etc/systemd/system'])
      expect((await readdir(join(machine.root, directory))).filter((name) => name.startsWith(program))).toEqual([]);
  });

  it.each([
    ['.deb', 'Debian and Ubuntu'],
    ['.rpm', 'RHEL, Rocky, SUSE'],
  ])(
    'as %s, and again, is the program that units start a copy of; removed, it names those and leaves them',
    async (_, heading) => {
      const [install = '', remove = ''] = typed(heading);
      expect(await on(install)).not.toContain('former version');
      const again = await on(install.replace('rpm -U', 'rpm -U --force'));
      expect(again).toContain(`, until you run: ${program} init host\n`);
      expect(again).toMatch(/^Unchanged: \/opt/m);
      expect(await on(`${program} --version`)).toMatch(versionLine);
      const [manual, completion] = ['man/man8/kube-cert-recovery.8.gz', `bash-completion/completions/${program}`];
      expect(await on(`gunzip -c ${machine.root}/usr/share/${manual}`)).toContain('\\-\\-renew\\-before');
      const words = `COMP_WORDS=(${program} init ho) COMP_CWORD=2; _kube_cert_recovery; echo "\${COMPREPLY[@]}"`;
      expect(await on(`bash -c '. ${machine.root}/usr/share/${completion}; ${words}'`)).toBe('host\n');
      const service = join(units(), 'kube-cert-recovery.service');
      expect(await readFile(service, 'utf8')).toContain(`${copy} --mode=regen --once`);
      const [, removePackage = ''] = remove.split('\n');
      const said = await on(removePackage);
      expect(said).toMatch(/units of "kube-cert-recovery init host" stay/);
      for (const name of ['kube-cert-recovery.timer', 'kubelet.service.d/20-kube-cert-recovery.conf'])
        expect(said).toMatch(new RegExp(`^ {2}\\S*/etc/systemd/system/${name}$`, 'm'));
      for (const path of [`usr/lib/${program}`, `usr/bin/${program}`])
        expect(existsSync(join(machine.root, path))).toBe(false);
      expect(await on(`${copy} --version`)).toMatch(versionLine);
      await on(/To remove both: (.*)/.exec(said)?.[1] ?? 'false');
      expect(await readdir(units())).not.toContain('kube-cert-recovery.timer');
      await on(install);
      expect(await on(remove)).not.toContain('stay:');
      expect((await readdir(units())).filter((name) => name.startsWith(program))).toEqual([]);
      expect(existsSync(join(machine.root, 'opt', program))).toBe(false);
    },
  );
});
