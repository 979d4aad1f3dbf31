// Result of a proof. `unproven` is not `wrong`: use could not be shown yet, for the reason given.
export interface ProofResult {
  readonly state: 'proven' | 'unproven' | 'notApplicable';
  /** One sentence for a human reader. */
  readonly message: string;
  /** Time of the query. */
  readonly at?: Date;
}

/** Combines the results of several readers: unproven if any is, then proven if any is. */
export function combineProofs(results: readonly ProofResult[]): ProofResult {
  const state =
    (['unproven', 'proven'] as const).find((wanted) => results.some((result) => result.state === wanted)) ??
    'notApplicable';
  const told = results.filter((result) => result.state === state);
  const message = told.length > 0 ? told.map((result) => result.message).join('; ') : 'No reader is declared';
  return { state, message };
}
