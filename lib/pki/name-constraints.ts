// Name constraints of a CA (RFC 5280, 4.2.1.10), read and applied by Go's rules (crypto/x509, parser.go and verify.go):
// for DNS names, IP addresses, URIs and mail addresses. They do not constrain a certificate without alternative names.
import { isIP } from 'node:net';
import { DerReader, type DerValue, tags } from './der.ts';
import { ipText, nameTags } from './names.ts';

/** DER of GeneralName, tag and content. */
type Constraint = Pick<DerValue, 'tag' | 'content'>;

export interface NameConstraints {
  readonly permitted: readonly Constraint[];
  readonly excluded: readonly Constraint[];
  /**
   * Whether there are constraints of kinds that Go does not apply: it refuses a certificate in which the extension is
   * critical.
   */
  readonly hasOthers: boolean;
}

const [permittedTag, excludedTag] = [0xa0, 0xa1];
const isApplied = ({ tag }: Constraint): boolean => (Object.values(nameTags) as readonly number[]).includes(tag);

/** Throws RangeError. */
export function readNameConstraints(value: DerReader): NameConstraints {
  const parts = value.inside(tags.sequence, 'name constraints');
  const lists = [permittedTag, excludedTag].map((tag) => parts.optional(tag));
  if (!value.isEmpty || !parts.isEmpty || !lists.some((list) => list !== undefined && !list.isEmpty)) {
    throw new RangeError('name constraints are empty or damaged');
  }
  const [permitted = [], excluded = []] = lists.map((list) =>
    list?.all((items) => items.inside(tags.sequence, 'name constraint').any()),
  );
  for (const one of [...permitted, ...excluded]) checkConstraint(one);
  return {
    permitted: permitted.filter(isApplied),
    excluded: excluded.filter(isApplied),
    hasOthers: ![...permitted, ...excluded].every(isApplied),
  };
}

function checkConstraint({ tag, content }: DerValue): void {
  const text = content.toString('latin1');
  const isGood = ((): boolean => {
    if (tag === nameTags.ip) return isNetwork(content);
    if (tag === nameTags.dns) return isAscii(content) && isDomain(text, true);
    if (tag === nameTags.uri) return isAscii(content) && isIP(text) === 0 && isDomain(text, true);
    if (tag === nameTags.email) return isAscii(content) && (/^[^@]+@/.test(text) || isDomain(text, true));
    return true;
  })();
  if (!isGood) throw new RangeError('a name constraint is damaged');
}

export const isAscii = (content: Buffer): boolean => content.every((byte) => byte < 0x80);

export function isDomain(text: string, isConstraint: boolean): boolean {
  if (text === '') return isConstraint;
  const labels = (isConstraint && text.startsWith('.') ? text.slice(1) : text).split('.');
  return /^[!-~]*$/.test(text) && labels.every(({ length }) => length > 0);
}

/** An address and a mask of ones followed by zeros. */
function isNetwork(content: Buffer): boolean {
  if (content.length !== 8 && content.length !== 32) return false;
  const bits = [...content.subarray(content.length / 2)].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  return /^1*0*$/.test(bits);
}

/** Why a CA with these constraints may not sign a certificate with these alternative names (DER); undefined: it may. */
export function constraintProblem(
  names: readonly Buffer[],
  { permitted, excluded }: NameConstraints,
): string | undefined {
  for (const der of names) {
    const name = new DerReader(der).any();
    if (!isApplied(name)) continue;
    const text = textOf(name);
    const ofKind = (list: readonly Constraint[]): readonly Constraint[] => list.filter(({ tag }) => tag === name.tag);
    const [may, mustNot] = [ofKind(permitted), ofKind(excluded)];
    if (!canBeCompared(name)) return `"${text}" cannot be held against them`;
    if (mustNot.some((one) => covers(one, name))) return `they exclude "${text}"`;
    if (may.length > 0 && !may.some((one) => covers(one, name))) return `they do not permit "${text}"`;
  }
  return undefined;
}

const textOf = ({ tag, content }: Constraint): string =>
  tag === nameTags.ip ? (ipText(content) ?? content.toString('hex')) : content.toString('latin1');

/** Domain of a mail address, or host of a URI. */
function domainOf({ tag, content }: Constraint): string | undefined {
  const text = content.toString('latin1');
  if (tag === nameTags.email) return /^[^@]+@([^@]+)$/.exec(text)?.[1];
  if (tag === nameTags.uri)
    return /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#@]*@)?([^/?#:]+)(?::\d*)?(?:[/?#]|$)/i.exec(text)?.[1];
  return text;
}

function canBeCompared(name: Constraint): boolean {
  if (name.tag === nameTags.ip) return name.content.length === 4 || name.content.length === 16;
  const domain = domainOf(name);
  return (
    domain !== undefined &&
    isDomain(domain, name.tag === nameTags.dns) &&
    !(name.tag === nameTags.uri && isIP(domain) !== 0)
  );
}

function covers({ tag, content }: Constraint, name: Constraint): boolean {
  if (tag === nameTags.ip) return isInNetwork(name.content, content);
  const constraint = content.toString('latin1');
  if (tag !== nameTags.email || !constraint.includes('@')) return isInDomain(domainOf(name) ?? '', constraint);
  const [local, domain] = splitMailbox(name.content.toString('latin1'));
  const [wantedLocal, wantedDomain] = splitMailbox(constraint);
  return local === wantedLocal && domain.toLowerCase() === wantedDomain.toLowerCase();
}

function splitMailbox(text: string): readonly [string, string] {
  const at = text.lastIndexOf('@');
  return [text.slice(0, at), text.slice(at + 1)];
}

/** `.example.com` covers subdomains only, `example.com` itself as well, an empty constraint all. */
function isInDomain(domain: string, constraint: string): boolean {
  if (constraint === '') return true;
  const wanted = constraint.toLowerCase();
  const name = domain.toLowerCase();
  return wanted.startsWith('.') ? name.endsWith(wanted) : name === wanted || name.endsWith(`.${wanted}`);
}

function isInNetwork(address: Buffer, network: Buffer): boolean {
  const { length } = address;
  if (network.length !== 2 * length) return false;
  return address.every((byte, at) => (byte & (network[length + at] ?? 0)) === (network[at] ?? 0));
}
