// What Go makes of certificates, pairs, bundles, kubeconfigs and requests: the program in test/controlplane/readers, built from the
// module that pins the control plane, so with the same client-go. It is asked many questions at once.
import { spawn } from 'node:child_process';
import { builtOnce } from '../cluster/built-once.ts';

export interface GoQuestion {
  readonly kind:
    'certificate' | 'pair' | 'bundle' | 'pool' | 'etcdBundle' | 'kubeconfig' | 'request' | 'leaf' | 'chain';
  readonly content: Uint8Array;
  /** Of a pair. */
  readonly key?: Uint8Array;
  /** Of a leaf: PEM of the CAs that may have signed it, and when that is asked. */
  readonly by?: { readonly roots: Uint8Array; readonly at: Date };
  /** Of a chain, with `by`: PEM of what comes along with the leaf, and what it is to be used for. */
  readonly along?: { readonly intermediates: Uint8Array; readonly usage?: string; readonly hostname?: string };
}

/** Bytes in base64. */
export interface GoAnswer {
  readonly accepted: boolean;
  readonly reason?: string;
  readonly certificates?: readonly string[];
  /** Seconds since the epoch. */
  readonly notBefore?: number;
  readonly notAfter?: number;
  readonly server?: string;
  readonly leaf?: string;
  readonly leafKey?: string;
  readonly authority?: string;
  readonly request?: GoRequest;
}

/** Bytes in base64. */
export interface GoRequest {
  readonly commonName: string;
  readonly organizations: readonly string[];
  readonly names: number;
  readonly subject: string;
  readonly publicKey: string;
  readonly dns: readonly string[];
  readonly emails: readonly string[];
  readonly ips: readonly string[];
  readonly uris: number;
  readonly extensions: readonly string[];
}

/** Path of the program. */
export const findGoReaders = (env: NodeJS.ProcessEnv = process.env): Promise<string> =>
  builtOnce({
    module: 'test/controlplane',
    sources: ['readers/main.go'],
    name: 'readers',
    what: 'the readers of client-go',
    duration: '20 seconds',
    package: './readers',
    env,
  });

/** The answers in the order of the questions. `env`: GODEBUG makes today's Go read as an older one. */
export async function askGo(
  program: string,
  questions: readonly GoQuestion[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<readonly GoAnswer[]> {
  const child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'], env });
  const answers: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => answers.push(chunk));
  const ended = Promise.withResolvers<number | null>();
  child.once('error', (err) => ended.reject(err)).once('close', (code) => ended.resolve(code));
  const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
  for (const { kind, content, key, by, along } of questions) {
    const signed = by && { roots: base64(by.roots), at: Math.floor(by.at.getTime() / 1000) };
    const chain = along && { ...along, intermediates: base64(along.intermediates) };
    const question = { kind, content: base64(content), ...(key && { key: base64(key) }), ...signed, ...chain };
    child.stdin.write(`${JSON.stringify(question)}\n`);
  }
  child.stdin.end();
  const code = await ended.promise;
  const lines = Buffer.concat(answers).toString('utf8').split('\n').slice(0, -1);
  if (code !== 0 || lines.length !== questions.length) {
    throw new Error(`The Go readers ended with ${code} after ${lines.length} of ${questions.length} answers`);
  }
  return lines.map((line) => JSON.parse(line) as GoAnswer);
}
