// PEM files of an artefact with foreign content: then none of its files is written. Pure.
import { RecoveryError } from '../errors.ts';
import type { DiskLocation } from '../inventory/model.ts';
import { privateKeyKey, registryAuthsKey } from '../inventory/content.ts';
import { otherThanPem, type PemRole } from '../pki/pem-remains.ts';
import type { Part, Understood } from './disk-layout.ts';
import { documentKind } from '../content-kind.ts';
import { yamlMapping } from '../yaml.ts';
import { locationText } from './store.ts';

type OfOthers = Pick<Understood, 'foreign' | 'isOtherDocument'>;
type RolesOf = (part: Part) => readonly PemRole[];
export const roleOfEntry: RolesOf = ({ role }) => [role === privateKeyKey ? 'key' : 'certificate'];
export const bothRoles: RolesOf = () => ['certificate', 'key'];

/**
 * Reason why all files of an artefact are left alone: a file holds neither PEM of its role nor a torn remainder of
 * that; undefined where all fit.
 */
export function contentOfOthers(
  location: DiskLocation,
  parts: readonly Part[],
  rolesOf: RolesOf,
): OfOthers | undefined {
  for (const part of parts) {
    const isAuths = part.role === registryAuthsKey;
    const other = part.bytes && (isAuths ? otherThanAuths(part.bytes) : otherThanPem(part.bytes, rolesOf(part)));
    if (other === undefined) continue;
    const roles = rolesOf(part).map((role) => (role === 'key' ? 'private key' : 'certificate'));
    const wanted = isAuths ? ['credentials for registries'] : roles;
    const foreign = `${locationText(location)} is left alone: "${part.file}" holds no ${wanted.join(' and no ')} but ${other}`;
    return { foreign, isOtherDocument: true };
  }
  return undefined;
}

/** A whole document without `auths`; whatever else does not parse is taken for remains. */
function otherThanAuths(bytes: Uint8Array): string | undefined {
  const document = yamlMapping(Buffer.from(bytes).toString('utf8'));
  return document !== undefined && 'auths' in document ? undefined : documentKind(document);
}

/** Throws WriteFailed where a file holds foreign content. */
export function requireOwn(location: DiskLocation, parts: readonly Part[], rolesOf: RolesOf): void {
  const { foreign } = contentOfOthers(location, parts, rolesOf) ?? {};
  if (foreign === undefined) return;
  throw new RecoveryError('WriteFailed', `Cannot write ${locationText(location)}: ${foreign}; move that away`);
}

const ofCredentials: RolesOf = ({ role }) =>
  role === 'client.crt' ? ['certificate'] : role === 'client.key' ? ['key'] : ['certificate', 'key'];

/** The same check for the files that a kubeconfig names for its certificate and its key. */
export const credentialsOfOthers = (location: DiskLocation, parts: readonly Part[]): OfOthers | undefined =>
  contentOfOthers(
    location,
    parts.filter(({ role }) => role !== 'kubeconfig' && role !== 'ca.crt'),
    ofCredentials,
  );
