// What `status` says of an adopted machine besides its files: our containers, and the objects in the API. Pure.
import type { StatusClass, StatusReport } from './report.ts';

/** The container of this program in one static pod. `wrong`: only a person puts it right. */
export interface ContainerSight {
  readonly pod: string;
  readonly state: 'ready' | 'waiting' | 'wrong' | 'unknown';
  readonly message: string;
}

export interface AdoptedSight {
  /** Empty in a forecast. */
  readonly pods: readonly ContainerSight[];
  /** Undefined where the API could not be asked. */
  readonly objects?: StatusReport;
  /** Why not all of it could be looked at. */
  readonly problem?: string;
}

/** Whether something of it is not known: then nobody may say that all is well. */
export function isPartlyUnknown({ pods, objects, problem }: AdoptedSight): boolean {
  const isUnread = objects?.rows.some(({ state }) => state === 'UNKNOWN') ?? false;
  return problem !== undefined || isUnread || pods.some(({ state }) => state === 'unknown');
}

/** What a person must do, or know. */
export function adoptedProblems({ pods, objects, problem }: AdoptedSight): readonly string[] {
  return [
    ...(problem === undefined ? [] : [`objects and containers of this adopted machine are not known: ${problem}`]),
    ...pods.flatMap(({ state, message }) => (state === 'wrong' ? [message] : [])),
    ...(problem === undefined ? pods : []).flatMap(({ pod, state, message }) =>
      state === 'unknown' ? [`${pod}: ${message}`] : [],
    ),
    ...(objects?.problems ?? []),
  ];
}

export function adoptedClass(sight: AdoptedSight): StatusClass {
  if (adoptedProblems(sight).length > 0) return 'stuck';
  const isWaiting = sight.pods.some(({ state }) => state === 'waiting');
  return isWaiting || sight.objects?.class === 'recovering' ? 'recovering' : 'healthy';
}

const severity: readonly StatusClass[] = ['healthy', 'recovering', 'stuck'];

export function worse(one: StatusClass, other: StatusClass): StatusClass {
  return severity.indexOf(one) > severity.indexOf(other) ? one : other;
}
