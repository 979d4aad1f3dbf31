// Damaged requests, read here, by Go and by OpenSSL: what is accepted here and not by both, or is read otherwise by one of
// them. Whoever approves judges what this program reads, and kube-controller-manager signs what Go reads.
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { judgeKey } from '../../../lib/approver/request.ts';
import { isCode } from '../../../lib/errors.ts';
import { type CertificateRequest, parseCertificateRequest } from '../../../lib/pki/csr.ts';
import { ipv6Bytes } from '../../../lib/pki/names.ts';
import { Dice } from './damage.ts';
import { damagedRequest, makeSigners } from './damaged-requests.ts';
import type { DifferenceOptions } from './go-differences.ts';
import { askGo, findGoReaders, type GoAnswer } from './go-readers.ts';

const run = promisify(execFile);

export interface RequestDifferences {
  /** Each with its seed and its text in base64; five at most. */
  readonly differences: readonly string[];
  /** How many were accepted: a test in which none is proves nothing. */
  readonly accepted: number;
  /** And of these, how many have a subject that a kubelet may have, and how many alternative names. */
  readonly ofKubelets: number;
  readonly named: number;
}

interface Accepted {
  readonly seed: number;
  readonly pem: Buffer;
  readonly ours: CertificateRequest;
}

/** Keys are new in each run, so that a seed repeats the damage and the text tells the bytes. */
export async function requestDifferences({ seed, count }: DifferenceOptions): Promise<RequestDifferences> {
  const signers = makeSigners();
  const accepted: Accepted[] = [];
  for (let at = 0; at < count; at += 1) {
    const pem = damagedRequest(new Dice(seed + at), signers);
    const ours = acceptedRequest(pem);
    if (ours !== undefined) accepted.push({ seed: seed + at, pem, ours });
  }
  const [go, openssl] = await Promise.all([
    askGo(
      await findGoReaders(),
      accepted.map(({ pem }) => ({ kind: 'request', content: pem })),
    ),
    askOpenssl(accepted.map(({ pem }) => pem)),
  ]);
  const differences = accepted.flatMap(({ seed: one, pem, ours }, at) => {
    const found = [
      ...goDifferences(ours, go[at] ?? { accepted: false }),
      ...opensslDifferences(ours, openssl[at] ?? ''),
    ];
    const command = `DAMAGE_SEED=${one} DAMAGE_CASES=1`;
    return found.length === 0 ? [] : [`${command}: ${found.join('; ')}\n${pem.toString('base64')}`];
  });
  const isOfKubelet = ({ ours: { subject, unusualSubject } }: Accepted): boolean =>
    subject.attributes.length === 2 && subject.organizations.length === 1 && unusualSubject === undefined;
  return {
    differences: differences.slice(0, 5),
    accepted: accepted.length,
    ofKubelets: accepted.filter(isOfKubelet).length,
    named: accepted.filter(({ ours }) => ours.alternativeNames.length > 0).length,
  };
}

function acceptedRequest(pem: Buffer): CertificateRequest | undefined {
  try {
    const read = parseCertificateRequest(pem, 'it');
    // Every rule asks for a key of some strength. Go verifies no signature of a weak one.
    return read.provesPossession && judgeKey(read) === undefined ? read : undefined;
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) return undefined;
    throw err;
  }
}

function goDifferences(ours: CertificateRequest, { accepted, reason, request: go }: GoAnswer): readonly string[] {
  const hasUri = ours.alternativeNames.some(({ kind }) => kind === 'URI');
  // Go reads URIs as net/url does. No rule here accepts one, so what it is does not matter.
  if (!accepted && hasUri && /URI/.test(reason ?? '')) return [];
  if (!accepted || go === undefined) return [`Go refuses: ${reason}`];
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  const latin1 = (text: string): string => Buffer.from(text, 'latin1').toString('base64');
  const namesOf = (wanted: string): string[] =>
    ours.alternativeNames.filter(({ kind }) => kind === wanted).map(({ value }) => value);
  const pairs: readonly (readonly [string, unknown, unknown])[] = [
    ['common name', base64(ours.subject.commonName), go.commonName],
    ['organizations', ours.subject.organizations.map(base64), go.organizations],
    ['number of names', ours.subject.attributes.length, go.names],
    ['subject', ours.subject.der.toString('base64'), go.subject],
    ['public key', ours.publicKeyInfo.toString('base64'), go.publicKey],
    ['DNS names', namesOf('DNS').map(latin1), go.dns],
    ['e-mail addresses', namesOf('email').map(latin1), go.emails],
    ['IP addresses', namesOf('IP'), go.ips],
    ['number of URIs', namesOf('URI').length, go.uris],
    ['extensions', ours.extensions, go.extensions],
  ];
  return pairs.flatMap(([what, one, other]) => {
    const [mine, theirs] = [JSON.stringify(one), JSON.stringify(other)];
    return mine === theirs ? [] : [`${what}: ${mine}, Go reads ${theirs}`];
  });
}

/**
 * What `openssl req` prints of each, with its exit code first. It reads one file in a process, so that only what is accepted
 * here is shown to it, from one shell for each processor.
 */
async function askOpenssl(pems: readonly Buffer[]): Promise<readonly string[]> {
  const directory = await mkdtemp(join(tmpdir(), 'openssl-'));
  try {
    await Promise.all(pems.map((pem, at) => writeFile(join(directory, `${at}`), pem)));
    const shells = availableParallelism();
    const options = '-noout -verify -text -subject -pubkey -nameopt RFC2253,-dn_rev,-esc_msb,utf8';
    const loop = `i=$1; while [ $i -lt ${pems.length} ]; do
printf '\\n==== %s ' $i; openssl req -in $i ${options} >out.$1 2>&1; echo $?; cat out.$1; i=$((i + ${shells})); done`;
    const outputs = await Promise.all(
      Array.from({ length: shells }, (_, first) =>
        run('sh', ['-c', loop, 'sh', `${first}`], { cwd: directory, maxBuffer: 2 ** 30 }),
      ),
    );
    const answers: string[] = [];
    for (const { stdout } of outputs) {
      for (const part of stdout.split('\n==== ').slice(1)) {
        const [, at = '', answer = ''] = /^(\d+) ([^]*)$/.exec(part) ?? [];
        answers[Number(at)] = answer;
      }
    }
    return answers;
  } finally {
    await rm(directory, { recursive: true });
  }
}

function opensslDifferences(ours: CertificateRequest, answer: string): readonly string[] {
  const [code, ...lines] = answer.split('\n');
  if (code !== '0' || !answer.includes('verify OK')) {
    return [`OpenSSL ends with ${code}: ${lines.find((line) => /error|fail/i.test(line))}`];
  }
  const subject = /^subject=(.*)$/m.exec(answer)?.[1] ?? '';
  const [key = ''] = /-----BEGIN PUBLIC KEY-----[^]*-----END PUBLIC KEY-----/.exec(answer) ?? [];
  const der = Buffer.from(key.replaceAll(/-----.*-----|\n/g, ''), 'base64');
  const listed = [...(/^ +X509v3 Subject Alternative Name: .*\n +(.*)$/m.exec(answer)?.slice(1) ?? [])];
  const pairs: readonly (readonly [string, string, string])[] = [
    ['common names', valuesOf(ours, 'CN'), opensslValues(subject, 'CN')],
    ['organizations', valuesOf(ours, 'O'), opensslValues(subject, 'O')],
    ['public key', ours.publicKeyInfo.toString('hex'), der.toString('hex')],
  ];
  const names = ours.alternativeNames;
  // A list with a name of another kind has no form that could be compared, and no rule accepts it.
  const areSame = names.some(({ kind }) => kind === 'other') || areNames(listed.join(), names);
  return [
    ...pairs.flatMap(([what, mine, theirs]) => (mine === theirs ? [] : [`${what}: ${mine}, OpenSSL reads ${theirs}`])),
    ...(areSame ? [] : [`names: ${JSON.stringify(names)}, OpenSSL reads ${listed.join()}`]),
  ];
}

function areNames(listed: string, names: CertificateRequest['alternativeNames']): boolean {
  let rest = listed;
  for (const [at, { kind, value }] of names.entries()) {
    const texts = kind === 'IP' ? ipTexts(value).map((text) => `IP Address:${text}`) : [`${kind}:${value}`];
    const found = texts.map((text) => (at === 0 ? text : `, ${text}`)).find((text) => rest.startsWith(text));
    if (found === undefined) return false;
    rest = rest.slice(found.length);
  }
  return rest === '';
}

/** As OpenSSL writes it; an IPv4 address also as the IPv6 address that wraps it, which is the same to Go and here. */
function ipTexts(address: string): readonly string[] {
  const groupsOf = (text: string): string => {
    const bytes = ipv6Bytes(text);
    return Array.from({ length: 8 }, (_, at) =>
      bytes
        .readUInt16BE(at * 2)
        .toString(16)
        .toUpperCase(),
    ).join(':');
  };
  return address.includes(':') ? [groupsOf(address)] : [address, groupsOf(`::ffff:${address}`)];
}

const valuesOf = ({ subject }: CertificateRequest, wanted: string): string =>
  JSON.stringify(subject.attributes.filter(({ type }) => type === wanted).map(({ value }) => value));

/** The values of one type in a name as in RFC 2253, here in the order of the bytes. */
function opensslValues(subject: string, wanted: string): string {
  const rdns = subject.split(/(?<!(?<!\\)(?:\\\\)*\\),/);
  const values = rdns.flatMap((rdn) => rdn.split(/(?<!(?<!\\)(?:\\\\)*\\)\+/));
  const ofType = values.filter((value) => value.startsWith(`${wanted}=`));
  return JSON.stringify(ofType.map((value) => unescaped(value.slice(wanted.length + 1))));
}

function unescaped(text: string): string {
  return text.replaceAll(/\\([0-9A-F]{2}|.)/gu, (_all, what: string) =>
    what.length === 2 ? String.fromCharCode(Number.parseInt(what, 16)) : what,
  );
}
