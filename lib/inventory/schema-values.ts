// Single values of inventories and configuration files as they are written in YAML: names, paths, durations. An `error`
// text names the wanted state.
import * as z from 'zod';
import { durationPattern, parseDuration } from '../duration.ts';
import { dnsLabel, dnsSubdomain } from './hostname.ts';

const objectNameWanted = 'a Kubernetes object name (lower case letters, digits, "-" and ".")';
const fileWanted =
  'an absolute path without "..", or one that begins with a declared directory such as "{pkiDir}/ca.crt"';
/** Every segment is a name: no empty one, no `.` and no `..`. */
const filePattern = /^(?:\{[A-Za-z][A-Za-z0-9]*\})?(?:\/(?!\.{1,2}(?:\/|$))[^/\0{}]+)+$/;
const directoryPattern = /^(?:\/(?!\.{1,2}(?:\/|$))[^/\0{}]+)+$/;

const text = (pattern: RegExp, error: string) => z.string({ error }).regex(pattern, { error });

export const objectName = text(dnsSubdomain, objectNameWanted);
export const namespaceName = text(dnsLabel, 'a namespace (lower case letters, digits and "-", at most 63 characters)');
export const directoryPath = text(directoryPattern, 'an absolute path without ".."');
export const filePath = text(filePattern, fileWanted);
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

export function durationUpTo(longest: string): z.ZodType<number, string> {
  const fits = (value: string): boolean => milliseconds(value) <= milliseconds(longest);
  return text(durationPattern, durationWanted)
    .refine(fits, { error: `a duration of at most ${longest}` })
    .transform(milliseconds);
}
