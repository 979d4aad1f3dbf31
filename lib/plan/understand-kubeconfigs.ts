// What the kubeconfigs in one Secret hold: whose credentials, which servers, by which CAs these are known. Pure.
import { RecoveryError } from '../errors.ts';
import type { Kubeconfigs } from '../inventory/model.ts';
import { type Certificate, parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { pairMatches } from '../pki/pair.ts';
import { type KubeconfigFields, onlyEntries } from '../store/kubeconfig-entries.ts';
import { type Found, locationText } from '../store/store.ts';
import type { ArtefactFacts } from './facts.ts';

interface Held {
  readonly leaf: Certificate;
  readonly authorities: readonly Certificate[];
  readonly server: string;
}

/** The leaf of each, where these differ; CAs that all of them know. Throws MaterialInvalid, with no word of a key. */
export function understandKubeconfigs(
  { location, servers }: Kubeconfigs,
  { entries, version }: Found,
): { facts: ArtefactFacts; certificates: readonly Certificate[] } {
  const what = locationText(location);
  const held = servers.map(({ key }) => read(entries[key], `${what} ${key}`));
  const leaves = new Map(held.map(({ leaf }) => [leaf.facts.fingerprint, leaf]));
  const known = held.map(({ authorities }) => authorities.map(({ facts }) => facts.fingerprint));
  const certificates = [...leaves.values()];
  const facts: ArtefactFacts = {
    state: 'present',
    version,
    certificates: certificates.map((leaf) => leaf.facts),
    digest: [...leaves.keys()].join(' '),
    authorities: known[0]?.filter((print) => known.every((prints) => prints.includes(print))) ?? [],
    servers: Object.fromEntries(servers.map(({ key }, at) => [key, held[at]?.server ?? ''])),
  };
  return { facts, certificates };
}

function read(bytes: Uint8Array | undefined, what: string): Held {
  const refuse = (problem: string): RecoveryError =>
    new RecoveryError('MaterialInvalid', `Cannot use ${what}: ${problem}`);
  if (bytes === undefined) throw refuse('it is not there');
  const { cluster, user } = onlyEntries(bytes);
  const data = (from: KubeconfigFields | undefined, key: string): Buffer => {
    const value = from?.[key];
    if (typeof value !== 'string') throw refuse(`it has no ${key}`);
    return Buffer.from(value, 'base64');
  };
  const [leaf] = parseCertificates(data(user, 'client-certificate-data'), `${what} client-certificate-data`);
  const key = data(user, 'client-key-data');
  if (leaf === undefined || !pairMatches(leaf, key, `${what} client-key-data`))
    throw refuse('its key does not belong to its certificate');
  const server = cluster?.['server'];
  if (typeof server !== 'string') throw refuse('it names no server');
  const authorities = wholeCertificates(data(cluster, 'certificate-authority-data'));
  if (authorities.length === 0) throw refuse('it knows its server by no certificate');
  return { leaf, authorities, server };
}
