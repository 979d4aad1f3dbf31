// Writes the code that V8 makes of a built text, beside it: `node FLAGS scripts/compile.ts TEXT`, with the flags of Node
// that the program is started with. V8 compiles a function when it is first called, so the program is run here as far as
// that needs no cluster: what recovers, signs and connects is in the code then.
import { hash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { Script } from 'node:vm';
import type * as cli from '../cmd/cli.ts';

const [, , path = ''] = process.argv;
const text = readFileSync(path, 'latin1');
const script = new Script(text, { filename: path });
const module = { exports: {} as typeof cli };
type Wrapper = (require: NodeJS.Require, module: { exports: unknown }, url: string) => void;
(script.runInThisContext() as Wrapper)(createRequire(path), module, pathToFileURL(path).href);

const root = mkdtempSync(join(tmpdir(), 'compile-'));
const nowhere = () => new Writable({ write: (_chunk, _encoding, done) => done() }) as NodeJS.WriteStream;

/** Runs a command; what becomes of it does not matter. */
async function run(...argv: readonly string[]): Promise<void> {
  const signal = AbortSignal.timeout(2000);
  await module.exports.run({ argv, env: {}, cwd: root, stdout: nowhere(), stderr: nowhere(), signal });
}

try {
  const config = join(root, 'config.yaml');
  const out = join(root, 'out');
  const server = 'https://127.0.0.1:1'; // nothing answers there
  writeFileSync(
    config,
    `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
preset: kubernetes
keyAlgorithm: ecdsaP256
parameters: { apiServerHostnames: [127.0.0.1], serviceIP: [10.0.0.1] }
directories: { pkiDir: ${root}/pki }
regen: { backupDir: ${root}/backups, lockDir: ${root}/lock }
`,
  );
  mkdirSync(join(root, 'pki/etcd'), { recursive: true });
  await run('init', 'render', `--config=${config}`, `--out=${out}`, `--server=${server}`);
  await run('--mode=regen', '--once', '--locations=disk', `--config=${config}`);
  await run('--mode=regen,syncer', `--config=${out}/config.yaml`);
  const kubernetesDir = join(root, 'kubernetes');
  mkdirSync(join(kubernetesDir, 'manifests'), { recursive: true });
  const container = { name: 'kube-apiserver', command: ['kube-apiserver', '--etcd-servers=https://127.0.0.1:2379'] };
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: container.name }, spec: { containers: [container] } };
  writeFileSync(join(kubernetesDir, 'manifests/kube-apiserver.yaml'), JSON.stringify(pod));
  await run('--mode=regen', '--once', '--dry-run', '--preset=kubeadm', `--directory=kubernetesDir=${kubernetesDir}`);
} finally {
  rmSync(root, { recursive: true });
}

const code = script.createCachedData();
const isTaken = new Script(text, { filename: path, cachedData: code }).cachedDataRejected === false;
if (!isTaken) throw new Error('V8 refuses the code that it has just made');
writeFileSync(`${path}.${process.version}-${process.arch}.code`, Buffer.concat([hash('sha256', code, 'buffer'), code]));
