// Content that is obtained between two passes. A timer runs each minute: when a place was reached last is noted (/run),
// before it is reached, so that a run that ends there counts, too. The plan decides how often what is not urgent is.
import type { Decision } from '../plan/decision.ts';
import type { Asked, Sources } from '../plan/gather-offers.ts';
import { origins } from './origins.ts';
import type { Between, Obtaining, Place } from './obtaining.ts';

const noteOf = ({ artefact }: Place): string => `asked-${artefact}`;

const isOpen = ({ onlyInRuns }: Between, { purpose }: Obtaining): boolean => purpose === 'run' || onlyInRuns !== true;

/** Places of all artefacts that are obtained, and when an earlier run has reached each. */
export async function sourcesOf(run: Obtaining): Promise<Sources> {
  const places = Object.values(origins).flatMap(({ between }) =>
    between !== undefined && isOpen(between, run) ? between.places(run) : [],
  );
  const known = places.map(async (place): Promise<[string, Asked]> => {
    const note = await run.notes.getText(noteOf(place));
    const askedAt = note?.value === place.identity ? note.at : undefined;
    return [place.artefact, { place: place.text, ...(askedAt && { askedAt }) }];
  });
  return new Map(await Promise.all(known));
}

type Obtained = Pick<Decision, 'artefact' | 'obtains'>;

/** Answers for these decisions, obtained in parallel. Rejects when it is aborted. */
export async function obtain(wanted: readonly Obtained[], run: Obtaining): Promise<Sources> {
  const answers = wanted.map(async ({ artefact, obtains }): Promise<[string, Asked][]> => {
    const between = obtains && origins[obtains].between;
    const place = between?.places(run).find((one) => one.artefact === artefact);
    if (between === undefined || place === undefined || !isOpen(between, run)) return [];
    if (run.purpose === 'run') await run.notes.keep(noteOf(place), place.identity, run.clock.now());
    return [[artefact, { place: place.text, answer: await between.obtain(artefact, run) }]];
  });
  return new Map((await Promise.all(answers)).flat());
}
