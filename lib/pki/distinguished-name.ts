// A distinguished name: its exact bytes (Go compares issuer and subject as bytes), and what people and decisions read
// of it. Attributes are found in single-valued and in multi-valued RDNs alike.
import { childrenOf, oidText, stringText, type DerValue } from './der.ts';

export interface DistinguishedName {
  readonly der: Buffer;
  /** As in RFC 2253, last RDN first. */
  readonly text: string;
  /** The last one, where there are several (as Go); empty where there is none. */
  readonly commonName: string;
  readonly organizations: readonly string[];
}

const shortNames: Readonly<Record<string, string>> = {
  '2.5.4.3': 'CN',
  '2.5.4.5': 'SERIALNUMBER',
  '2.5.4.6': 'C',
  '2.5.4.7': 'L',
  '2.5.4.8': 'ST',
  '2.5.4.9': 'STREET',
  '2.5.4.10': 'O',
  '2.5.4.11': 'OU',
  '2.5.4.17': 'POSTALCODE',
};

function escapeValue(value: string): string {
  return value
    .replaceAll(/[,+"\\<>;]/g, String.raw`\$&`)
    .replace(/^[# ]/, String.raw`\$&`)
    .replace(/(?<!^) $/, String.raw`\ `);
}

export function readDistinguishedName(name: DerValue): DistinguishedName {
  const rdns = childrenOf(name).map((rdn) =>
    childrenOf(rdn).map((attribute) => {
      const [type, value] = childrenOf(attribute);
      if (type === undefined || value === undefined) throw new RangeError('name has an empty attribute');
      const oid = oidText(type);
      return { type: shortNames[oid] ?? oid, value: stringText(value) };
    }),
  );
  const valuesOf = (wanted: string): string[] =>
    rdns
      .flat()
      .filter(({ type }) => type === wanted)
      .map(({ value }) => value);
  const text = rdns
    .toReversed()
    .map((rdn) => rdn.map(({ type, value }) => `${type}=${escapeValue(value)}`).join('+'))
    .join(',');
  return { der: name.raw, text, commonName: valuesOf('CN').at(-1) ?? '', organizations: valuesOf('O') };
}
