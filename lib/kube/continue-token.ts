// The token by which a list is continued. It holds the name of the last object of a page, and a
// CertificateSigningRequest may have a name of any length: a request with such a token could not be sent.
import { isMapping } from '../yaml.ts';

const longestToken = 16_384;
/** Characters of the last name that are kept. */
const keptOfName = 1024;
/** The last character of all. */
const last = '\u{10FFFF}';

/**
 * The token, or where it is too long, one that continues behind all names with the same beginning
 * (k8s.io/apiserver/pkg/storage/continue.go: base64 of `{"v":"meta.k8s.io/v1","rv":7,"start":"NAME\u0000"}`). Another
 * form is returned as it is. Pure.
 */
export function sendableToken(token: string): string {
  if (token.length <= longestToken) return token;
  let content: unknown;
  try {
    content = JSON.parse(Buffer.from(token, 'base64url').toString());
  } catch {
    return token;
  }
  if (!isMapping(content) || typeof content['start'] !== 'string') return token;
  const start = content['start'].slice(0, keptOfName).replace(/[\uD800-\uDBFF]$/, '') + last;
  return Buffer.from(JSON.stringify({ ...content, start })).toString('base64url');
}
