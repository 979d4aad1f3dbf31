// Single values of inventories and configuration files in their YAML form: names, paths, durations, host names. An
// `error` text names the wanted state.
import { isIP } from 'node:net';
import * as z from 'zod';
import { canonicalHostname } from '../pki/names.ts';
import { durationPattern, parseDuration } from '../duration.ts';

const dnsLabel = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
export const dnsSubdomain = /^(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;

function isDnsName(name: string): boolean {
  if (name.length > 253) return false;
  const labels = name.split('.');
  const rest = labels[0] === '*' && labels.length > 1 ? labels.slice(1) : labels;
  // An all-numeric last label is a mistyped IPv4 address (RFC 1123, section 2.1).
  return rest.every((label) => dnsLabel.test(label)) && !/^\d+$/.test(rest.at(-1) ?? '');
}

/**
 * Returns the one spelling of a host name, without the final dot of a DNS name, so that two spellings count once and
 * compare equal to the name in a certificate; undefined when `text` is neither a DNS name nor an IP address.
 */
export function checkedHostname(text: string): string | undefined {
  if (isIP(text) !== 0) return text.includes('%') ? undefined : canonicalHostname(text);
  const name = canonicalHostname(text).replace(/\.$/, '');
  return isDnsName(name) ? name : undefined;
}

const objectNameWanted = 'a Kubernetes object name (lower case letters, digits, "-" and ".")';
const fileWanted =
  'an absolute path without "..", one that begins with a declared directory such as "{pkiDir}/ca.crt", or a declared file';
/** Every segment is a name: no empty one, no `.` and no `..`. Or a file that flags name: `{NAME}`. */
const filePattern = /^(?:\{[A-Za-z][A-Za-z0-9]*\}$|(?:\{[A-Za-z][A-Za-z0-9]*\})?(?:\/(?!\.{1,2}(?:\/|$))[^/\0{}]+)+$)/;
const directoryPattern = /^(?:\/(?!\.{1,2}(?:\/|$))[^/\0{}]+)+$/;

/** Reports a wrong form once: no further check of the value runs. */
const text = (pattern: RegExp, error: string) => z.string({ error }).regex(pattern, { error, abort: true });

export const objectName = text(dnsSubdomain, objectNameWanted);
export const namespaceName = text(dnsLabel, 'a namespace (lower case letters, digits and "-", at most 63 characters)');
/**
 * A line break would split a line of a unit of systemd and of a message. Bytes that are not UTF-8 are replaced where a
 * file or a command line is read (U+FFFD), and the path then names another file.
 */
const isPrintable = (path: string): boolean => !/[\p{Cc}\u2028\u2029\uFFFD]/u.test(path);
const printable = { error: 'a path in UTF-8 without line breaks and other control characters' };
export const directoryPath = text(directoryPattern, 'an absolute path without ".."').refine(isPrintable, printable);
export const filePath = text(filePattern, fileWanted).refine(isPrintable, printable);
/** A part of a path, too: the directory of its drop-ins has its name. */
export const unitName = text(/^[A-Za-z0-9][-\w:.@]{0,200}\.service$/, 'a service of systemd such as "etcd.service"');
export const someText = text(/\S/, 'text');
export const entryKey = text(
  /^(?!\.{1,2}$)[-._A-Za-z0-9]{1,253}$/,
  'a key of a Secret (letters, digits, "-", "_" and ".")',
);
export const parameterName = text(/^[A-Za-z][A-Za-z0-9]*$/, 'a parameter name (letters and digits)');
export const serverUrl = text(/^https:\/\/[^\s/]+$/, 'a URL of https without path');
export const hostnameText = text(/^\S+$/, 'a DNS name or an IP address');

const durationWanted = 'a duration such as "30d", "12h", "10m" or "5s"';
const milliseconds = (value: string): number => parseDuration(value) ?? Number.NaN;
export const duration = text(durationPattern, durationWanted)
  .refine((value) => !Number.isNaN(milliseconds(value)), { error: durationWanted })
  .transform(milliseconds);
export const durationAboveZero = duration.refine((ms) => ms > 0, { error: 'a duration of more than 0s' });

export function durationUpTo(longest: string): z.ZodType<number, string> {
  const fits = (value: string): boolean => milliseconds(value) <= milliseconds(longest);
  return text(durationPattern, durationWanted)
    .refine(fits, { error: `a duration of at most ${longest}` })
    .transform(milliseconds);
}

/** Possession of its own key is all that a machine without the key of the cluster's CA can prove. */
export const obtainedBy = z
  .enum(['request'])
  .exactOptional()
  .describe('request: with a CertificateSigningRequest by its own key, once it has expired; it has no issuer here');

/** CAs in files of this host that follow those of the cluster. */
export const followed = {
  followedAs: z
    .enum(['serverCa', 'clientCa', 'otherCa'])
    .exactOptional()
    .describe(
      'Of CAs in files: a CA that the cluster has renewed with the key of the CA here takes its place. serverCa: by ' +
        'these CAs the API server is verified that publishes it; clientCa: by these, clients of this machine; otherCa: ' +
        'by these, others',
    ),
  presence: z
    .enum(['required', 'optional'])
    .exactOptional()
    .describe(
      'Of a bundle that files follow, and of credentials that are copied. optional: where it is absent or empty, nothing is missing. Default: required',
    ),
  inputs: z
    .array(objectName)
    .min(1)
    .exactOptional()
    .describe(
      'Of CAs that are followed: bundles whose valid CAs are added. What the file holds stays until it expires',
    ),
};
