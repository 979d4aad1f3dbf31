// Whose the kinds of artefacts are. Pure.
import type { Artefact } from './model.ts';

type OfKind = Pick<Artefact, 'kind'>;

/** Nobody makes it here, not even when a cluster is installed. */
export const isOfOthers = ({ kind }: OfKind): boolean => kind === 'given' || kind === 'opaque';

/** Recovery looks at it and never writes it: a key pair is made once, and a new one would make every token worthless. */
export const isOnlyRead = (artefact: OfKind): boolean => artefact.kind === 'keyPair' || isOfOthers(artefact);
