// The CAs of a kubeadm node and what they have signed, as files of a machine, on or off; and whether OpenSSL and Go verify
// one generation by another.
import { X509Certificate } from 'node:crypto';
import { execFile } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { askGo, findGoReaders } from '../faults/go-readers.ts';
import { authorities, leaves } from './leaves.ts';
import { type Node, withScratch } from './node.ts';

const run = promisify(execFile);

export interface Generation {
  /** PEM by name: ca, etcd/ca, front-proxy-ca. */
  readonly authorities: ReadonlyMap<string, string>;
  /** Of those that lie in /etc/kubernetes. */
  readonly leaves: readonly { readonly name: string; readonly by: string; readonly pem: string }[];
}

/** What lies there now. */
export async function generationOn(node: Node): Promise<Generation> {
  const copy = await node.copyOut('/etc/kubernetes');
  const read = (file: string): Promise<string> => readFile(join(dirname(copy), file.replace(/^etc\//, '')), 'utf8');
  const pems = authorities.map(async ({ ca, file }) => [ca, await read(file)] as const);
  const signed = leaves
    .filter(({ file }) => file.startsWith('etc/kubernetes/'))
    .map(async ({ name, file, ca }) => ({ name, by: ca, pem: leafIn(await read(file)) }));
  try {
    return { authorities: new Map(await Promise.all(pems)), leaves: await Promise.all(signed) };
  } finally {
    await rm(dirname(copy), { recursive: true });
  }
}

function leafIn(text: string): string {
  const data = /client-certificate-data: (\S+)/.exec(text)?.[1];
  return data === undefined ? text : Buffer.from(data, 'base64').toString();
}

/** What OpenSSL and Go have against leaves of one generation under the CAs of another: nothing, when both verify them. */
export async function refusals(leavesOf: Generation, under: Generation): Promise<readonly string[]> {
  const asked = leavesOf.leaves.map(({ name, by, pem }) => {
    const roots = under.authorities.get(by) ?? '';
    const [leaf, root] = [new X509Certificate(pem), new X509Certificate(roots)];
    // While both are valid; an old generation is no longer so.
    const until = Math.min(leaf.validToDate.getTime(), root.validToDate.getTime());
    const from = Math.max(leaf.validFromDate.getTime(), root.validFromDate.getTime());
    return { name, pem, roots, at: new Date((from + until) / 2), isValid: from < until };
  });
  const go = await askGo(
    await findGoReaders(),
    asked.map(({ pem, roots, at }) => ({
      kind: 'leaf' as const,
      content: Buffer.from(pem),
      by: { roots: Buffer.from(roots), at },
    })),
  );
  return withScratch(async (scratch) => {
    const [rootFile, leafFile] = [join(scratch, 'root.crt'), join(scratch, 'leaf.crt')];
    const found: string[] = [];
    for (const [place, { name, pem, roots, at, isValid }] of asked.entries()) {
      if (!isValid) found.push(`${name}: never valid with its CA`);
      const answer = go[place];
      if (answer?.accepted !== true) found.push(`${name}: Go: ${answer?.reason}`);
      await writeFile(rootFile, roots);
      await writeFile(leafFile, pem);
      const time = String(Math.floor(at.getTime() / 1000));
      await run('openssl', ['verify', '-x509_strict', '-attime', time, '-CAfile', rootFile, leafFile]).catch(
        ({ stderr }: { readonly stderr?: string }) => found.push(`${name}: openssl: ${stderr}`),
      );
    }
    return found;
  });
}

/** Below /etc/kubernetes. */
interface Holders {
  readonly kubeconfigs?: readonly string[];
  readonly files: readonly string[];
}

/** A machine that is off gets another generation of the CA. */
export async function holdAuthority(node: Node, ca: string, { kubeconfigs = [], files }: Holders): Promise<void> {
  const data = `certificate-authority-data: ${Buffer.from(ca).toString('base64')}`;
  await withScratch(async (scratch) => {
    const changed = join(scratch, 'etc/kubernetes');
    const put = async (path: string, content: string, mode: number): Promise<void> => {
      await mkdir(dirname(join(changed, path)), { recursive: true });
      await writeFile(join(changed, path), content, { mode });
    };
    const copy = await node.copyOut('/etc/kubernetes');
    try {
      for (const path of kubeconfigs) {
        const text = await readFile(join(copy, path), 'utf8');
        await put(path, text.replace(/certificate-authority-data: \S+/, data), 0o600);
      }
    } finally {
      await rm(dirname(copy), { recursive: true });
    }
    for (const path of files) await put(path, ca, 0o644);
    await node.copyIn(scratch, '/');
  });
}
