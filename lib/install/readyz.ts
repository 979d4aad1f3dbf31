// Whether one of our containers on this machine is ready, asked where the kubelet asks whether it lives.
import { get } from 'node:http';
import { errorText } from '../errors.ts';

export interface HealthAddress {
  readonly host: string;
  readonly port: number;
}

const answerMs = 5_000;
const mostCharacters = 10_000;

/** Undefined when /readyz says that it is ready; else why it is not, in one line. Never rejects. */
export async function askReady({ host, port }: HealthAddress, signal: AbortSignal): Promise<string | undefined> {
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}/readyz`;
  try {
    const { status, body } = await answerOf(url, signal);
    if (status === 200) return undefined;
    const failed = [...body.matchAll(/^\[-\](.+)$/gm)].map(([, line = '']) => line);
    return `${url} answers ${status}: ${failed.length > 0 ? failed.join('; ') : 'no check is named'}`;
  } catch (err) {
    return `${url} does not answer: ${errorText(err)}`;
  }
}

function answerOf(url: string, signal: AbortSignal): Promise<{ readonly status: number; readonly body: string }> {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent: false, timeout: answerMs, signal }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (text: string) => (body = `${body}${text}`.slice(0, mostCharacters)));
      response.once('end', () => resolve({ status: response.statusCode ?? 0, body }));
      response.once('error', reject);
    });
    request.once('timeout', () => request.destroy(new Error(`no answer for ${answerMs / 1000} s`)));
    request.once('error', reject);
  });
}
