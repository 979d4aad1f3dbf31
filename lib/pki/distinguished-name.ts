// A distinguished name: its exact bytes (Go compares issuer and subject as bytes), and what people and decisions read
// of it. Attributes are found in single-valued and in multi-valued RDNs alike.
import { childrenOf, type DerValue, oidText, readDer, stringText, tags, writeDer } from './der.ts';

export interface DistinguishedName {
  readonly der: Buffer;
  /** As in RFC 2253, last RDN first. */
  readonly text: string;
  /** The last one, where there are several (as Go); empty where there is none. */
  readonly commonName: string;
  readonly organizations: readonly string[];
  /** All of it, in the order of the bytes: types by short name (CN, O), others as object identifiers. */
  readonly attributes: readonly { readonly type: string; readonly value: string }[];
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
  const attributes = rdns.flat();
  const valuesOf = (wanted: string): string[] =>
    attributes.filter(({ type }) => type === wanted).map(({ value }) => value);
  const text = rdns
    .toReversed()
    .map((rdn) => rdn.map(({ type, value }) => `${type}=${escapeValue(value)}`).join('+'))
    .join(',');
  return { der: name.raw, text, commonName: valuesOf('CN').at(-1) ?? '', organizations: valuesOf('O'), attributes };
}

const oids = { commonName: Buffer.from('0603550403', 'hex'), organization: Buffer.from('060355040a', 'hex') };

/** What Go's encoding/asn1 takes for a PrintableString; everything else becomes a UTF8String. */
const printable = /^[A-Za-z0-9 '()+,./:=?-]*$/;

/**
 * The name that Go makes of a pkix.Name with organizations and a common name: all organizations in one RDN, in the
 * order of their DER, then the common name.
 */
export function goDistinguishedName(commonName: string, organizations: readonly string[]): DistinguishedName {
  const attribute = (oid: Buffer, text: string): Buffer => {
    const tag = printable.test(text) ? tags.printableString : tags.utf8String;
    return writeDer(tags.sequence, oid, writeDer(tag, Buffer.from(text)));
  };
  const groups = organizations
    .map((text) => attribute(oids.organization, text))
    .toSorted((a, b) => Buffer.compare(a, b));
  const rdns = [
    ...(groups.length === 0 ? [] : [writeDer(tags.set, ...groups)]),
    writeDer(tags.set, attribute(oids.commonName, commonName)),
  ];
  return readDistinguishedName(readDer(writeDer(tags.sequence, ...rdns)));
}
