// Whether a file in the place of a kubeconfig is one, or its remains after a power loss, a bad disk or a truncated
// copy; else its kind of content. systemd services read their environment from /etc/kubernetes/scheduler.conf, a static
// pod its KubeSchedulerConfiguration: a file that is not evidently the remains of a kubeconfig belongs to another
// program, and is never replaced. Pure.
//
// Evidence of remains, each enough (k8s.io/client-go tools/clientcmd/api/v1 has the names of the fields):
//   - no bytes at all, or nothing but zeros and blanks: it has no content, so nothing is lost with it
//   - a mapping with two of the four fields that every kubeconfig has, either with an item of a kubeconfig in a field
//     or nothing else in the mapping, or with nothing but fields of a kubeconfig
//   - a text that is no YAML any more, with at least a single such field at the beginning of a line and fewer other
//     fields there, with at most a single line that no kubeconfig has, and that only next to a version, a server or
//     credentials
//   - a text that is cut off within the first line of a kubeconfig
//   - lines of base64 and fields of a kubeconfig, where the rest was zeroed
import { bounds } from '../bounds.ts';
import { contentKind, documentKind, isEnvironmentFile, signedKind } from '../content-kind.ts';
import { excessOf, isMapping, yamlMapping, yamlText } from '../yaml.ts';

/** Lists that every kubeconfig has, each with the mapping that its items hold. */
const lists: Readonly<Record<string, string>> = { clusters: 'cluster', contexts: 'context', users: 'user' };
const essential = [...Object.keys(lists), 'current-context'];
const ofDocument = ['apiVersion', 'kind', 'preferences', 'extensions', ...essential];
const ofCredentials = /^(certificate-authority|client-certificate|client-key)(-data)?$/;
const ofItems = /^(cluster|context|user|name|server|namespace|tls-server-name|insecure-skip-tls-verify)$/;

const isOwnField = (name: string): boolean =>
  ofDocument.includes(name) || ofCredentials.test(name) || ofItems.test(name);

/** Names its kind of content; undefined for a kubeconfig and the remains of one. */
export function otherThanKubeconfig(bytes: Uint8Array): string | undefined {
  // Larger than any kubeconfig: decoding takes several times as much memory.
  const { characters } = bounds.yaml.most;
  if (bytes.length > characters) return excessText(bytes, `more than ${characters} characters`);
  const whole = yamlText(bytes);
  const text = whole.replaceAll('\0', '');
  if (text.trim() === '' || text.trim() === '\ufeff') return undefined;
  // No kubeconfig has so many lines, and each line that is checked takes memory.
  const excess = excessOf(text, 'others');
  if (excess !== undefined) return excessText(bytes, excess);
  if (isEnvironmentFile(text)) return 'a file of environment variables';
  const signed = signedKind(bytes);
  if (signed !== undefined) return signed;
  const value = yamlMapping(text);
  if (isMapping(value) && Object.keys(value).length > 0)
    return isOwnMapping(value) && (hasOwnLists(value) || isMarked(text)) ? undefined : documentKind(value);
  if (isTornText(text) || (whole !== text && isZeroedText(text))) return undefined;
  return contentKind(bytes);
}

const excessText = (bytes: Uint8Array, excess: string): string =>
  `${contentKind(bytes.subarray(0, 65_536))} with ${excess}`;

function isOwnMapping(value: Readonly<Record<string, unknown>>): boolean {
  const names = Object.keys(value);
  const found = names.filter((name) => essential.includes(name));
  const { apiVersion, kind } = value;
  // An API group is no damage, and neither is a field of another kind next to a single list.
  if (typeof apiVersion === 'string' && apiVersion.includes('/')) return false;
  // Other documents have lists of these names, too, with items of their own.
  const hasOthers = found.some((name) => Array.isArray(value[name]) && value[name].some((item) => isMapping(item)));
  if (found.length > 1) return !hasOthers || found.some((name) => hasItems(value[name], lists[name] ?? ''));
  if (!names.every((name) => ofDocument.includes(name))) return false;
  const isPlain = (given: unknown, wanted: string): boolean =>
    given === undefined || given === null || (typeof given === 'string' && wanted.startsWith(given));
  if (!isPlain(apiVersion, 'v1') || !isPlain(kind, 'Config')) return false;
  const isGiven = (given: unknown): boolean => given !== undefined && given !== null && given !== '';
  const isNamed = isGiven(apiVersion) || isGiven(kind) || names.every((name) => value[name] === null);
  // A single list is little evidence: cloud-init has users, too.
  return isNamed || found.some((name) => name === 'current-context' || hasItems(value[name], lists[name] ?? ''));
}

/** Whether its lists hold mappings; lists of other documents hold names: `users: [bob]`. */
const hasOwnLists = (value: Readonly<Record<string, unknown>>): boolean =>
  Object.keys(lists).every((name) => {
    const list = value[name] ?? [];
    return Array.isArray(list) && list.every((item) => item === null || isMapping(item));
  });

const hasItems = (list: unknown, field: string): boolean =>
  Array.isArray(list) &&
  list.some(
    (item: unknown) =>
      isMapping(item) && Object.hasOwn(item, field) && (item[field] === null || isMapping(item[field])),
  );

const fieldAtBegin = /^["']?([A-Za-z][\w.-]*)["']?[ \t]*:/gm;
const listAtBegin = /^["']?(clusters|contexts|users)["']?[ \t]*:[ \t]*(?:$|\[|null)/gm;
const ownContext = /^["']?(current-context)["']?[ \t]*:/gm;
const fieldAnywhere = /(?:^|[{,\s])["']?([A-Za-z][\w.-]*)["']?[ \t]*:/gm;
const firstLines = ['apiVersion: v1', 'kind: Config', 'clusters:', 'current-context:', 'contexts:', 'users:'];
const jsonBegins =
  /^\s*\{\s*"(?:kind"\s*:\s*"Config"|apiVersion"\s*:\s*"v1"\s*,\s*"(?:kind"\s*:\s*"Config"|clusters"|contexts"|users"|current-context"|preferences")|clusters"|current-context"|preferences")/;

const namesIn = (text: string, pattern: RegExp): readonly string[] =>
  [...text.matchAll(pattern)].flatMap(([, name]) => name ?? []);

/** Whether a text that is no YAML mapping is the remains of a kubeconfig. */
function isTornText(whole: string): boolean {
  if (/^\s*\{/.test(whole)) return jsonBegins.test(whole) || '{"apiVersion":"v1"'.startsWith(whole.trim());
  const lines = whole.split('\n').filter((line) => line.trim() !== '' && !/^\s*(#|---\s*$)/.test(line));
  const text = lines.join('\n'); // A kubeconfig in comments is none.
  const last = lines.at(-1) ?? '';
  if (firstLines.some((line) => line.startsWith(last))) {
    const before = yamlMapping(lines.slice(0, -1).join('\n'));
    if (lines.length === 1 || (before !== undefined && isOwnMapping(before))) return true;
  }
  const own = new Set([...namesIn(text, listAtBegin), ...namesIn(text, ownContext)]);
  const isOwn = (name: string): boolean => ofDocument.includes(name) || ofCredentials.test(name);
  const others = new Set(namesIn(text, fieldAtBegin).filter((name) => !isOwn(name)));
  if (own.size > 0) {
    const strange = lines.filter((line) => !isOwnLine(line)).length;
    if (strange > 1 || (strange === 1 && !isMarked(text))) return false;
    return others.size < own.size || (others.size === own.size && hasCredentials(text));
  }
  // Cut off at both ends, or with damaged lists: then its credentials are within.
  return others.size < 2 && hasCredentials(text) && namesIn(text, fieldAnywhere).filter(isOwnField).length > 2;
}

const hasCredentials = (text: string): boolean => namesIn(text, fieldAnywhere).some((name) => ofCredentials.test(name));

/** Whether it is more than prose: people write of clusters and users, too. */
const isMarked = (text: string): boolean =>
  hasCredentials(text) || /^apiVersion[ \t]*:[ \t]*["']?v1\b/m.test(text) || /(^|[{,\s])server[ \t]*:/.test(text);

/** Whether a line is a field of a kubeconfig, an item, or data. */
const isOwnLine = (line: string): boolean =>
  /^\s*(?:-\s*)?["']?([A-Za-z][\w.-]*)["']?[ \t]*:/.test(line)
    ? namesIn(line, fieldAnywhere).some((name) => isOwnField(name))
    : /^\s*(?:[-\]}{[,]*|[A-Za-z0-9+/]{20,}={0,2})\s*$/.test(line);

function isZeroedText(text: string): boolean {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const isData = (line: string): boolean => /^\s*[A-Za-z0-9+/]*={0,2}\s*$/.test(line);
  const isField = (line: string): boolean => namesIn(line, fieldAnywhere).some((name) => isOwnField(name));
  // A single word is no certificate data.
  return (
    lines.every((line) => isData(line) || isField(line)) && lines.some((line) => line.length > 64 || isField(line))
  );
}
