// The .deb and .rpm of a directory, by nfpm, which scripts/release/go.mod pins.
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { findGo } from '../../test/support/cluster/go-build.ts';
import type { Stamp } from '../build-stamp.ts';
import type { Architecture } from './architectures.ts';

const run = promisify(execFile);
const here = fileURLToPath(new URL('.', import.meta.url));
/** Units start a copy elsewhere, which an upgrade of the package leaves alone. */
const home = '/usr/lib/kube-cert-recovery';

const page = { mode: 0o644 };

const formats = ['deb', 'rpm'] as const;

/** Go builds it once and keeps it. */
export async function packager(): Promise<string> {
  const go = await findGo(process.env);
  if (go === undefined) {
    throw new Error('Cannot make packages: Go is not installed; install Go 1.21 or newer, which builds nfpm');
  }
  const env = { ...process.env, CGO_ENABLED: '0', GOWORK: 'off', GOFLAGS: '-mod=readonly' };
  const { stdout } = await run(go, ['-C', here, 'tool', '-n', 'nfpm'], { env });
  return stdout.trim();
}

interface Wanted {
  readonly nfpm: string;
  /** Directory whose files are installed. */
  readonly program: string;
  readonly architecture: Architecture;
  readonly stamp: Stamp;
  /** Path of the manual page, compressed. */
  readonly manual: string;
  /** Directory of the packages. */
  readonly out: string;
}

/** `${program}.json` is left for nfpm. */
export async function writeLinuxPackages({ nfpm, program, architecture, stamp, manual, out }: Wanted): Promise<void> {
  const file = `${program}.json`; // JSON is YAML
  await writeFile(file, JSON.stringify(description(program, architecture, stamp, manual)));
  await Promise.all(
    formats.map((format) => run(nfpm, ['package', `--config=${file}`, `--packager=${format}`, `--target=${out}/`])),
  );
}

function description(program: string, arch: Architecture, stamp: Stamp, manual: string): object {
  return {
    name: 'kube-cert-recovery',
    arch,
    platform: 'linux',
    version: stamp.version,
    release: '1',
    maintainer: 'The authors of kube-cert-recovery',
    section: 'admin',
    priority: 'optional',
    description: `Zero-touch certificate recovery for Kubernetes control planes\nCommit ${stamp.commit}. Nothing is repaired before "kube-cert-recovery init host".`,
    license: 'Apache-2.0',
    mtime: stamp.builtAt,
    contents: [
      { src: `${program}/`, dst: home, type: 'tree' },
      // Relative, so that it leads there in another root directory, too.
      { src: '../lib/kube-cert-recovery/kube-cert-recovery', dst: '/usr/bin/kube-cert-recovery', type: 'symlink' },
      { src: manual, dst: '/usr/share/man/man8/kube-cert-recovery.8.gz', file_info: page },
      {
        src: `${here}completion.bash`,
        dst: '/usr/share/bash-completion/completions/kube-cert-recovery',
        file_info: page,
      },
    ],
    scripts: { postinstall: `${here}after-install.sh`, preremove: `${here}before-remove.sh` },
    overrides: {
      deb: { depends: ['libc6 (>= 2.28)', 'libstdc++6'] },
      rpm: { depends: ['glibc >= 2.28', 'libstdc++'] },
    },
    deb: { compression: 'zstd' },
    rpm: { compression: 'zstd', buildhost: 'localhost' },
  };
}
