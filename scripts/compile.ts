// Writes the code that V8 makes of a built text, beside it: `node FLAGS scripts/compile.ts TEXT once|waiting`, with the
// flags of Node that the program is started with. V8 compiles a function when it is first called, so the program is
// started here on a first generation as on a healthy machine: what such a start needs is in the code then. What else it
// can do is not, because each start reads all of the code; runs that end and modes that wait have a code each.
import { spawnSync } from 'node:child_process';
import { hash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createSecureServer, type Http2SecureServer } from 'node:http2';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { Script } from 'node:vm';
import type * as cli from '../cmd/cli.ts';

const [, , path = '', which = ''] = process.argv;

// The units of a node are those of a node, whatever its directories are: nothing here may make certificates for them.
const unitDirectories = ['/etc', '/run', '/usr/local/lib', '/usr/lib', '/lib'].map(
  (place) => `${place}/systemd/system`,
);
const unit = ['kubelet', 'etcd']
  .flatMap((name) => unitDirectories.map((directory) => `${directory}/${name}.service`))
  .find((file) => existsSync(file));
if (which === 'once' && unit !== undefined) {
  process.stderr.write(`"${unit}" is here: runs that end are built without compiled code, and start a little later\n`);
  process.exit();
}

const text = readFileSync(path, 'latin1');
const script = new Script(text, { filename: path });
const module = { exports: {} as typeof cli };
type Wrapper = (require: NodeJS.Require, module: { exports: unknown }, url: string) => void;
(script.runInThisContext() as Wrapper)(createRequire(path), module, pathToFileURL(path).href);

const root = mkdtempSync(join(tmpdir(), 'compile-'));
const out = join(root, 'out');
const namespace = 'kube-cert-recovery';
const [longestMs, pollMs] = [60_000, 50];
/** Time for the other objects; too little means that some of the code is compiled when it is needed. */
const othersMs = 1000;

/** Runs a command until it has written this file; a mode that waits is stopped then. */
async function run(argv: readonly string[], file: string): Promise<void> {
  const told: string[] = [];
  const stream = new Writable({ write: (chunk, _encoding, done) => (told.push(String(chunk)), done()) });
  const [stdout, stderr] = [stream, stream] as unknown as [NodeJS.WriteStream, NodeJS.WriteStream];
  const stop = new AbortController();
  const running = module.exports.run({ argv, env: {}, cwd: root, stdout, stderr, signal: stop.signal });
  const ended = running.then(() => true);
  for (let left = longestMs; left > 0 && !existsSync(file); left -= pollMs)
    if (await Promise.race([ended, sleep(pollMs, false)])) break;
  if (!argv.includes('--once')) {
    await Promise.race([ended, sleep(othersMs)]);
    stop.abort();
  }
  await running;
  if (!existsSync(file)) throw new Error(`it has not written "${file}":\n${told.join('')}`);
}

/** Runs a command whose code is not wanted. Its failure shows in what follows. */
function runApart(...argv: readonly string[]): void {
  spawnSync(process.execPath, [join(dirname(path), 'main.mjs'), ...argv]);
}

/** Arguments of a run on a control-plane node of kubeadm, which has its CAs only. */
function kubeadmMachine(): readonly string[] {
  const [machine, config] = [join(root, 'kubernetes'), join(root, 'kubeadm.yaml')];
  const [signer, tokens] = [join(root, 'pki/etcd/ca'), join(out, 'certs/secrets/service-account-key/service-account')];
  for (const directory of ['manifests', 'pki/etcd']) mkdirSync(join(machine, directory), { recursive: true });
  for (const name of ['ca', 'etcd/ca', 'front-proxy-ca'])
    for (const end of ['.crt', '.key']) copyFileSync(`${signer}${end}`, join(machine, 'pki', `${name}${end}`));
  for (const end of ['.key', '.pub']) copyFileSync(`${tokens}${end}`, join(machine, 'pki', `sa${end}`));
  const flags = ['--advertise-address=127.0.0.1', '--etcd-servers=https://127.0.0.1:2379'];
  const container = { name: 'kube-apiserver', command: ['kube-apiserver', ...flags] };
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: container.name }, spec: { containers: [container] } };
  writeFileSync(join(machine, 'manifests/kube-apiserver.yaml'), JSON.stringify(pod));
  writeFileSync(
    config,
    `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
preset: kubeadm
keyAlgorithm: ecdsaP256
directories: { kubernetesDir: ${machine}, kubeletDir: ${root}/kubelet }
regen: { backupDir: ${root}/kept, lockDir: ${root}/run }
`,
  );
  return ['--mode=regen', '--once', `--config=${config}`];
}

/** Files of one object of the first generation; undefined where there is none. */
function dataOf(kind: string, name: string): Record<string, string> | undefined {
  const directory = join(out, 'certs', kind, name);
  if (!existsSync(directory)) return undefined;
  const encoding = kind === 'secrets' ? 'base64' : 'utf8';
  return Object.fromEntries(
    readdirSync(directory)
      .filter((key) => !key.startsWith('.'))
      .map((key) => [key, readFileSync(join(directory, key), encoding)]),
  );
}

/** Answer of a server that has the first generation, to a request for one object by its name or as a list. */
function answer(url: string): object | undefined {
  const [, kind = '', only] = /\/(secrets|configmaps)(?:\/([^/?]+))?/.exec(url) ?? [];
  const name = only ?? /metadata\.name(?:=|%3D)([^&]+)/.exec(url)?.[1] ?? '';
  const data = name === '' ? undefined : dataOf(kind, name);
  if (data === undefined) return undefined;
  const head = { apiVersion: 'v1', kind: kind === 'secrets' ? 'Secret' : 'ConfigMap' };
  const object = { ...head, metadata: { name, namespace, uid: name, resourceVersion: '1' }, data };
  return only === undefined
    ? { ...head, kind: `${head.kind}List`, metadata: { resourceVersion: '1' }, items: [object] }
    : object;
}

async function serve(): Promise<Http2SecureServer> {
  const started = createSecureServer();
  started.on('stream', (stream, { ':path': url = '' }) => {
    const object = answer(url);
    stream.respond({ ':status': object === undefined ? 404 : 200, 'content-type': 'application/json' });
    if (url.includes('watch=')) return; // no event comes
    stream.end(JSON.stringify(object ?? { kind: 'Status', apiVersion: 'v1', status: 'Failure', code: 404 }));
  });
  await new Promise<void>((listening) => void started.listen(0, '127.0.0.1', listening));
  return started;
}

const server = await serve();
try {
  const address = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const [config, kubeconfig] = [join(root, 'config.yaml'), join(root, 'kubeconfig')];
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
  writeFileSync(
    kubeconfig,
    `apiVersion: v1
kind: Config
current-context: it
contexts: [{ name: it, context: { cluster: it, user: it } }]
users: [{ name: it, user: { token: it } }]
clusters: [{ name: it, cluster: { server: '${address}', certificate-authority: ${out}/certs/configmaps/kube-apiserver-server-ca/ca-bundle.crt } }]
`,
    { mode: 0o600 },
  );
  mkdirSync(join(root, 'pki/etcd'), { recursive: true });
  runApart('init', 'render', `--config=${config}`, `--out=${out}`, `--server=${address}`);
  const serving = join(out, 'certs/secrets/kube-apiserver-serving');
  server.setSecureContext({
    cert: readFileSync(join(serving, 'tls.crt')),
    key: readFileSync(join(serving, 'tls.key')),
  });
  if (which === 'once') {
    await run(['--mode=regen', '--once', '--locations=disk', `--config=${config}`], join(root, 'pki/etcd/ca.crt'));
    const machine = kubeadmMachine();
    runApart(...machine);
    await run(machine, join(root, 'kubernetes/pki/apiserver.crt'));
  } else {
    const files = `--destination-dir=${root}/files`;
    const written = join(root, 'files/secrets/admin-client/tls.crt');
    await run(['--mode=syncer', `--config=${config}`, `--kubeconfig=${kubeconfig}`, files], written);
  }
} finally {
  server.close();
  rmSync(root, { recursive: true });
}

setFlagsFromString('--no-optimize-for-size'); // lib/engine.ts has set it
const code = script.createCachedData();
const isTaken = new Script(text, { filename: path, cachedData: code }).cachedDataRejected === false;
if (!isTaken) throw new Error('V8 refuses the code that it has just made');
writeFileSync(
  `${path}.${process.version}-${process.arch}.${which}.code`,
  Buffer.concat([hash('sha256', code, 'buffer'), code]),
);
