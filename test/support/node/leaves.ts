// The leaf certificates of a kubeadm node: signed again with other dates by the same CAs, on a machine that is switched
// off, and judged by the machine's own openssl. It shares no code with what is tested.
import { createPrivateKey, sign } from 'node:crypto';
import { chmod, cp, lstat, mkdir, readFile, readlink, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { type Node, withScratch } from './node.ts';

export interface Leaf {
  readonly name: string;
  /** Below /. A kubeconfig holds it embedded. */
  readonly file: string;
  readonly key?: string;
  /** Its CA below that directory, without extension; with .pem its key is beside it in -key.pem. */
  readonly ca: 'ca' | 'etcd/ca' | 'front-proxy-ca' | 'ca.pem';
  /** Below /. Default: etc/kubernetes/pki. */
  readonly directory?: string;
}

const pki = 'etc/kubernetes/pki';
export const pair = (name: string, ca: Leaf['ca'] = 'ca', directory = pki): Leaf => ({
  name: name.replace('/', '-'),
  file: `${directory}/${name}${ca === 'ca.pem' ? '.pem' : '.crt'}`,
  key: `${directory}/${name}${ca === 'ca.pem' ? '-key.pem' : '.key'}`,
  ca,
  ...(directory !== pki && { directory }),
});
const kubeconfig = (name: string): Leaf => ({ name, file: `etc/kubernetes/${name}`, ca: 'ca' });

/** Below /, of a CA. */
function authorityFiles({ ca, directory = pki }: Leaf): { readonly cert: string; readonly key: string } {
  const path = `${directory}/${ca}`;
  return ca === 'ca.pem'
    ? { cert: path, key: path.replace(/\.pem$/, '-key.pem') }
    : { cert: `${path}.crt`, key: `${path}.key` };
}

export const kubeletClient: Leaf = {
  name: 'kubelet.conf',
  file: 'var/lib/kubelet/pki/kubelet-client-current.pem',
  ca: 'ca',
};

/** Where the kubelet serves a certificate that it has requested (serverTLSBootstrap). */
export const kubeletServing: Leaf = {
  name: 'kubelet serving',
  file: 'var/lib/kubelet/pki/kubelet-server-current.pem',
  ca: 'ca',
};

export const leaves: readonly Leaf[] = [
  pair('etcd/server', 'etcd/ca'),
  pair('etcd/peer', 'etcd/ca'),
  pair('etcd/healthcheck-client', 'etcd/ca'),
  pair('apiserver-etcd-client', 'etcd/ca'),
  pair('apiserver'),
  pair('apiserver-kubelet-client'),
  pair('front-proxy-client', 'front-proxy-ca'),
  kubeconfig('admin.conf'),
  kubeconfig('controller-manager.conf'),
  kubeconfig('scheduler.conf'),
  kubeletClient,
];
/** Sign themselves. */
export const authorities: readonly Leaf[] = [
  pair('ca'),
  pair('etcd/ca', 'etcd/ca'),
  pair('front-proxy-ca', 'front-proxy-ca'),
];
/** Those that hold the bytes of their CA; not every machine has all. */
const kubeconfigs = ['admin.conf', 'super-admin.conf', 'controller-manager.conf', 'scheduler.conf', 'kubelet.conf'];

/** Those of a control plane whose certificates lie in another directory below /; `except` names those that it has not. */
export const leavesIn = (directory: string, except: readonly string[] = []): readonly Leaf[] =>
  [...leaves, superAdmin]
    .filter(({ name }) => !except.includes(name))
    .map((leaf) => {
      const moved = (path: string): string => path.replace(`${pki}/`, `${directory}/`);
      return { ...leaf, directory, file: moved(leaf.file), ...(leaf.key && { key: moved(leaf.key) }) };
    });

/** Where kubeadm init was run, not where a node has joined. */
export const superAdmin = kubeconfig('super-admin.conf');

export interface Dates {
  readonly notBefore: Date;
  readonly notAfter: Date;
}

/** A life that has ended an hour ago. */
export function past(now: Date): Dates {
  return { notBefore: new Date(now.getTime() - 7_200_000), notAfter: new Date(now.getTime() - 3_600_000) };
}

/**
 * Gives leaves, or CAs, of a machine other dates; keys, names, serial numbers, modes stay, and kubeconfigs follow their CA
 * (so not both in one call). It is off unless said otherwise.
 */
export async function reissue(
  node: Node,
  which: readonly Leaf[],
  dates: Dates,
  { runs = false }: { readonly runs?: boolean } = {},
): Promise<void> {
  await withScratch(async (scratch) => {
    const root = join(scratch, 'root');
    const elsewhere = which.flatMap(({ directory }) =>
      directory?.startsWith('etc/kubernetes/') === false ? [`/${directory}`] : [],
    );
    for (const path of new Set(['/etc/kubernetes', '/var/lib/kubelet/pki', ...elsewhere])) {
      const copy = await node.copyOut(path);
      await mkdir(dirname(join(root, path)), { recursive: true });
      await cp(copy, join(root, path), { recursive: true, verbatimSymlinks: true });
      await rm(dirname(copy), { recursive: true });
    }
    const changed = join(scratch, 'changed');
    await reissueFiles(root, which, { ...dates, to: changed });
    await (runs ? node.renameIn(changed) : node.copyIn(changed, '/'));
  });
}

/** The same for files below a directory that plays the root of a machine; what changes is written below `to`. */
export async function reissueFiles(
  root: string,
  which: readonly Leaf[],
  { to = root, ...dates }: Dates & { readonly to?: string },
): Promise<void> {
  for (const leaf of which) {
    const file = await followed(root, leaf.file);
    const text = await readFile(file, 'utf8');
    const key = await readFile(join(root, authorityFiles(leaf).key), 'utf8');
    const changed = join(to, relative(await realpath(root), file));
    await mkdir(dirname(changed), { recursive: true });
    await writeFile(changed, withDates(text, key, dates));
    await chmod(changed, (await stat(file)).mode & 0o777);
    if (leaf.file === `${pki}/ca.crt`) await embedAuthority(root, to);
  }
}

async function embedAuthority(root: string, to: string): Promise<void> {
  const ca = (await readFile(join(to, pki, 'ca.crt'))).toString('base64');
  for (const name of kubeconfigs) {
    const path = join('etc/kubernetes', name);
    const text = await readFile(join(root, path), 'utf8').catch(() => undefined);
    if (text === undefined) continue;
    const line = `certificate-authority-data: ${ca}`;
    await writeFile(join(to, path), text.replace(/certificate-authority-data: \S+/, line));
    await chmod(join(to, path), (await stat(join(root, path))).mode & 0o777);
  }
}

/** The file behind a path of the machine, whose absolute links lead into its own root. */
async function followed(root: string, path: string): Promise<string> {
  const file = join(root, path);
  if (!(await lstat(file)).isSymbolicLink()) return realpath(file);
  const target = await readlink(file);
  return realpath(target.startsWith('/') ? join(root, target) : join(dirname(file), target));
}

const pemBlock = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----\n?/;
const embedded = /(client-certificate-data: )(\S+)/;

function withDates(text: string, issuerKey: string, dates: Dates): string {
  if (embedded.test(text)) {
    return text.replace(embedded, (_, label: string, data: string) => {
      const pem = withDates(Buffer.from(data, 'base64').toString(), issuerKey, dates);
      return label + Buffer.from(pem).toString('base64');
    });
  }
  return text.replace(pemBlock, (pem) => {
    const der = Buffer.from(pem.replaceAll(/-----[^-]+-----|\s/g, ''), 'base64');
    const lines =
      resigned(der, issuerKey, dates)
        .toString('base64')
        .match(/.{1,64}/g) ?? [];
    return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n');
  });
}

/** Both times are UTCTime (RFC 5280 4.1.2.5) of equal length before and after, so nothing moves inside the part that is signed. */
function resigned(der: Buffer, issuerKey: string, { notBefore, notAfter }: Dates): Buffer {
  const outer = element(der, 0);
  const tbs = element(der, outer.content);
  const algorithm = element(der, tbs.end);
  const body = Buffer.from(der.subarray(outer.content, tbs.end));
  const times = body.indexOf(Buffer.from('301e170d', 'hex'));
  if (times === -1 || times !== body.lastIndexOf(Buffer.from('301e170d', 'hex')))
    throw new Error('The certificate has no validity, or two places look like it');
  body.write(utcTime(notBefore), times + 4, 'latin1');
  body.write(utcTime(notAfter), times + 4 + 13 + 2, 'latin1');
  // SHA-256 by kubeadm's CAs with RSA and P-256 keys.
  const signature = sign('sha256', body, createPrivateKey(issuerKey));
  const bits = wrapped(0x03, Buffer.concat([Buffer.from([0]), signature]));
  return wrapped(0x30, Buffer.concat([body, der.subarray(tbs.end, algorithm.end), bits]));
}

const utcTime = (date: Date): string =>
  `${date
    .toISOString()
    .replaceAll(/[-:T]|\..*/g, '')
    .slice(2)}Z`;

function element(der: Buffer, start: number): { readonly content: number; readonly end: number } {
  const first = der.readUInt8(start + 1);
  const bytes = first < 0x80 ? 0 : first & 0x7f;
  const length = bytes === 0 ? first : der.readUIntBE(start + 2, bytes);
  return { content: start + 2 + bytes, end: start + 2 + bytes + length };
}

function wrapped(tag: number, content: Buffer): Buffer {
  const { length } = content;
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), content]);
  const long = length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...long]), content]);
}

/** What the machine's openssl has against its leaves: nothing, when all is well. */
export async function leafProblems(node: Node, which: readonly Leaf[] = leaves): Promise<string[]> {
  return (await node.sh(leafCheck(which))).split('\n').filter((line) => line !== '');
}

/** The script of that check: prints a line for each problem. */
export function leafCheck(which: readonly Leaf[]): string {
  const checks = which.map((leaf) => {
    const { name, file, key } = leaf;
    return `check '${name}' '/${file}' '${key ? `/${key}` : ''}' '/${authorityFiles(leaf).cert}'`;
  });
  return [checkScript, ...checks].join('\n');
}

const checkScript = `
check() {
  certificate=$2 key=\${3:-$2}
  case "$2:$3" in
  *.pem:) # read once: the kubelet may put a new one there at any moment
    certificate=/tmp/leaf.pem key=/tmp/leaf.pem
    cat "$2" > $certificate ;;
  *.conf:)
    certificate=/tmp/leaf.crt key=/tmp/leaf.key
    sed -n 's/.*client-certificate-data: //p' "$2" | base64 -d > $certificate
    sed -n 's/.*client-key-data: //p' "$2" | base64 -d > $key
    sed -n 's/.*certificate-authority-data: //p' "$2" | base64 -d > /tmp/authority.crt
    openssl verify -CAfile /tmp/authority.crt "$4" > /dev/null 2>&1 || echo "$1: names another CA" ;;
  esac
  openssl verify -CAfile "$4" "$certificate" > /tmp/verify 2>&1 || echo "$1: $(tr '\\n' ' ' < /tmp/verify)"
  [ "$(openssl x509 -in "$certificate" -noout -pubkey 2>&1)" = "$(openssl pkey -in "$key" -pubout 2>&1)" ] ||
    echo "$1: certificate and key do not belong together"
  [ "$(stat -L -c %a "\${3:-$2}")" = 600 ] || echo "$1: mode $(stat -L -c %a "\${3:-$2}")"
}`;
