// An adopted machine in the report of `status`: objects in the API, and our containers in its static pods. Pure.
import type { StatusReport } from './report.ts';

/** Container of this program in one static pod. `wrong`: needs the administrator. */
interface ContainerStatus {
  readonly pod: string;
  readonly state: 'ready' | 'waiting' | 'wrong' | 'unknown';
  readonly message: string;
}

export interface AdoptionStatus {
  /** Empty in a forecast. */
  readonly pods: readonly ContainerStatus[];
  /** Undefined where the API did not answer. */
  readonly objects?: StatusReport | undefined;
  /** Why some of it could not be read. */
  readonly problem?: string | undefined;
}

/** Whether a part is unknown: then the report must not call the machine healthy. */
export function isPartlyUnknown({ pods, objects, problem }: AdoptionStatus): boolean {
  const isUnread = objects?.rows.some(({ state }) => state === 'UNKNOWN') ?? false;
  return problem !== undefined || isUnread || pods.some(({ state }) => state === 'unknown');
}

/** Problems that need the administrator's action or attention. */
export function adoptedProblems({ pods, objects, problem }: AdoptionStatus): readonly string[] {
  return [
    ...(problem === undefined ? [] : [`objects and containers of this adopted machine are not known: ${problem}`]),
    ...pods.flatMap(({ state, message }) => (state === 'wrong' ? [message] : [])),
    ...(problem === undefined ? pods : []).flatMap(({ pod, state, message }) =>
      state === 'unknown' ? [`${pod}: ${message}`] : [],
    ),
    ...(objects?.problems ?? []),
  ];
}
