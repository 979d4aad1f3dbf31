// Limits of a repair by an armed machine: until when its CAs can sign, whose keys are elsewhere, and on an adopted machine
// what its containers and the API keep from it. Pure.
import { listed } from '../summary.ts';
import { expiresText } from './expiry-text.ts';
import type { AdoptionStatus } from './adoption-report.ts';
import type { StatusRow } from './report.ts';

interface Limiting {
  readonly authorities: readonly StatusRow[];
  readonly adopted?: AdoptionStatus | undefined;
}

export function repairLimits({ authorities, adopted }: Limiting): readonly string[] {
  const names = (rows: readonly StatusRow[]): string => listed(rows.map(({ artefact }) => artefact));
  const expired = authorities.filter(({ state }) => state === 'EXPIRED');
  const keyless = authorities.filter(({ kind, isForeign }) => kind === 'signer' && isForeign);
  const ends = authorities.flatMap(({ state, notAfter }) => (state === 'EXPIRED' || !notAfter ? [] : [notAfter]));
  const [first] = ends.toSorted((a, b) => a.getTime() - b.getTime());
  const unready = adopted?.pods.filter(({ state }) => state === 'wrong') ?? [];
  const webhooks = adopted?.objects?.webhooks;
  const intercepting = webhooks?.seen === true ? webhooks.findings.length : 0;
  return [
    ...(first === undefined ? [] : [`CAs valid until ${expiresText(first)}`]),
    ...(expired.length === 0 ? [] : [`CA expired: ${names(expired)}`]),
    ...(keyless.length === 0 ? [] : [`CA key elsewhere: ${names(keyless)}`]),
    ...unready.map(({ pod }) => `no container of ours runs in ${pod}`),
    ...(intercepting === 0 ? [] : [`webhooks that can refuse a repair: ${intercepting} (see the notes)`]),
  ];
}
