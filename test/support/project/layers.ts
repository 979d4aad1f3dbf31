// What `npm test` runs: of each layer of the tests the file that says most in few minutes, and the line in which it ends.
// Pure.

export interface Layer {
  /** What is proven when all of it has passed. */
  readonly proves: string;
  readonly project: 'unit' | 'stories' | 'integration' | 'e2e';
  /** Paths below the project's directory. Absent: all of that project. */
  readonly files?: readonly string[];
}

/** Eight minutes on two cores: a layer whose file takes more than five is cut, or has another file here. */
export const layers: readonly Layer[] = [
  { proves: 'every unit', project: 'unit' },
  {
    proves: 'files are whole after a fault of each system call, and months of plans come to rest',
    project: 'stories',
    files: ['test/stories/writer-faults.test.ts', 'test/stories/months-of-plans.test.ts'],
  },
  {
    proves: 'a control plane with everything expired is back by itself',
    project: 'integration',
    files: ['test/integration/recovery.test.ts'],
  },
  {
    proves: 'a kubeadm node that was off past expiry is Ready',
    project: 'e2e',
    files: ['test/e2e/expiry.test.ts'],
  },
  { proves: 'so is a worker', project: 'e2e', files: ['test/e2e/one-worker.test.ts'] },
  {
    proves: 'the approver approves who has the key and nobody else',
    project: 'integration',
    files: ['test/integration/approver-possession.test.ts'],
  },
  {
    proves: 'regen and syncer survive kill -9 at any moment',
    project: 'integration',
    files: ['test/integration/recovery-kill.test.ts'],
  },
];

export const layerProjects: ReadonlySet<string> = new Set(layers.map(({ project }) => project));

/** The files of a project; undefined: all. */
export function layerFiles(project: string): readonly string[] | undefined {
  const own = layers.filter((layer) => layer.project === project);
  return own.some(({ files }) => files === undefined) ? undefined : own.flatMap(({ files = [] }) => files);
}

/** A test file that was to run. */
export interface LayerOutcome {
  readonly project: string;
  readonly file: string;
  readonly passed: boolean;
  readonly tests: number;
}

/** The last line of a run. A layer of which a file failed, or was left out by a filter, is not proven. */
export function conclusion(outcomes: readonly LayerOutcome[], seconds: number): string {
  const isProven = ({ project, files }: Layer): boolean => {
    const own = outcomes.filter((outcome) => outcome.project === project && (files?.includes(outcome.file) ?? true));
    return own.length >= (files?.length ?? 1) && own.every(({ passed }) => passed);
  };
  const say = (which: readonly Layer[]): string => which.map(({ proves }) => proves).join('; ');
  const proven = layers.filter(isProven);
  const others = layers.filter((layer) => !isProven(layer));
  const tests = outcomes.reduce((sum, outcome) => sum + outcome.tests, 0);
  const all = `by ${tests} tests in ${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (others.length === 0) return `Proven ${all}: ${say(proven)}.`;
  return `NOT proven ${all}: ${say(others)}.${proven.length > 0 ? ` Proven: ${say(proven)}.` : ''}`;
}
