// What a proof says. `unproven` is not `wrong`: it says that use could not be shown yet, and why.
export interface ProofResult {
  readonly state: 'proven' | 'unproven' | 'notApplicable';
  /** One sentence for people. */
  readonly message: string;
  /** When a prover was asked. */
  readonly at?: Date;
}

/** The results of several readers as one: unproven if any is, then proven if any is. */
export function combineProofs(results: readonly ProofResult[]): ProofResult {
  const state =
    (['unproven', 'proven'] as const).find((wanted) => results.some((result) => result.state === wanted)) ??
    'notApplicable';
  const told = results.filter((result) => result.state === state);
  const message = told.length > 0 ? told.map((result) => result.message).join('; ') : 'No reader is declared';
  return { state, message };
}
