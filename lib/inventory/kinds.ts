// Whose the kinds of artefacts are. Pure.
import type { Artefact, Signer } from './model.ts';
import { isFile } from './places.ts';

type OfKind = Pick<Artefact, 'kind'>;

/** Nobody makes it here, not even when a cluster is installed. */
export const isOfOthers = ({ kind }: OfKind): boolean => kind === 'external' || kind === 'opaque';

/** Recovery looks at it and never writes it: a key pair is made once, and a new one would make every token worthless. */
export const isOnlyRead = (artefact: OfKind): boolean => artefact.kind === 'keyPair' || isOfOthers(artefact);

/** A new one is made here when it is lost: in the API unless the inventory says otherwise, on disk where it says so. */
export const isMadeHere = ({ owned, location }: Signer): boolean =>
  owned === undefined ? !isFile(location) : owned !== false;
