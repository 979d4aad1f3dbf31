// Whether client-go can load a document as a kubeconfig (tools/clientcmd/api/v1/types.go and conversion.go): with a
// single value of a wrong type anywhere in it, also in a context of another cluster, no component loads any of it.
// Pure.

/** Type of a value; null stands for a value that is not given, as in Go. */
type Shape = 'text' | 'flag' | 'bytes' | 'anything' | readonly [Shape] | { readonly each: Shape } | Fields;
interface Fields {
  readonly fields: Readonly<Record<string, Shape>>;
}

const mapping = (fields: Readonly<Record<string, Shape>>): Fields => ({ fields });
const extensions: Shape = [mapping({ name: 'text', extension: 'anything' })];

const cluster = mapping({
  server: 'text',
  'tls-server-name': 'text',
  'insecure-skip-tls-verify': 'flag',
  'certificate-authority': 'text',
  'certificate-authority-data': 'bytes',
  'proxy-url': 'text',
  'disable-compression': 'flag',
  extensions,
});

const user = mapping({
  'client-certificate': 'text',
  'client-certificate-data': 'bytes',
  'client-key': 'text',
  'client-key-data': 'bytes',
  token: 'text',
  tokenFile: 'text',
  as: 'text',
  'as-uid': 'text',
  'as-groups': ['text'],
  'as-user-extra': { each: ['text'] },
  username: 'text',
  password: 'text',
  'auth-provider': mapping({ name: 'text', config: { each: 'text' } }),
  exec: mapping({
    command: 'text',
    args: ['text'],
    env: [mapping({ name: 'text', value: 'text' })],
    apiVersion: 'text',
    installHint: 'text',
    provideClusterInfo: 'flag',
    interactiveMode: 'text',
  }),
  extensions,
});

const kubeconfig = mapping({
  kind: 'text',
  apiVersion: 'text',
  preferences: mapping({ colors: 'flag', extensions }),
  clusters: [mapping({ name: 'text', cluster })],
  users: [mapping({ name: 'text', user })],
  contexts: [
    mapping({ name: 'text', context: mapping({ cluster: 'text', user: 'text', namespace: 'text', extensions }) }),
  ],
  'current-context': 'text',
  extensions,
});

/**
 * Returns why client-go cannot load it, without any of its values; undefined: it can. `own`: paths where bytes are not
 * checked, because their readers report problems with them: `users[2].user`.
 */
export function kubeconfigProblem(config: unknown, own: readonly string[] = []): string | undefined {
  const isOwn = (what: string): boolean => own.some((path) => what.startsWith(`its ${path}.`));
  const problem = shapeProblem(config, { shape: kubeconfig, what: 'it', isOwn });
  if (problem !== undefined) return problem;
  const given = (config ?? {}) as Readonly<Record<string, unknown>>;
  if (isOther(given['kind'], 'Config') || isOther(given['apiVersion'], 'v1')) return 'it is of another kind or version';
  for (const list of ['clusters', 'users', 'contexts']) {
    const names = ((given[list] ?? []) as readonly ({ readonly name?: string } | null)[]).map((one) => one?.name ?? '');
    if (new Set(names).size < names.length) return `two of its ${list} have one name`;
  }
  return undefined;
}

const isOther = (value: unknown, wanted: string): boolean =>
  value !== undefined && value !== null && value !== '' && value !== wanted;

interface Wanted {
  readonly shape: Shape;
  /** The path to the value, as the beginning of a sentence. */
  readonly what: string;
  readonly isOwn: (what: string) => boolean;
}

function shapeProblem(value: unknown, wanted: Wanted): string | undefined {
  const { shape, what, isOwn } = wanted;
  if (value === undefined || value === null || shape === 'anything') return undefined;
  if (typeof shape === 'string') {
    const isGood = (shape === 'bytes' && isOwn(what)) || isScalar(value, shape);
    return isGood ? undefined : `${what} is not ${scalars[shape]}`;
  }
  if (Array.isArray(shape)) {
    const [of] = shape as readonly [Shape];
    if (!Array.isArray(value)) return `${what} is no list`;
    return firstProblem(value.map((item: unknown, at) => [item, { shape: of, what: `${what}[${at}]`, isOwn }]));
  }
  if (typeof value !== 'object' || Array.isArray(value)) return `${what} is no mapping`;
  const values = Object.entries(value as Readonly<Record<string, unknown>>);
  // YAML has such keys, Go's reader of it does not.
  if (values.some(([name]) => name === '')) return `${what} has a key without a name`;
  const named = shape as Fields | { readonly each: Shape };
  return firstProblem(
    values.flatMap(([name, one]): Item[] => {
      const of = 'each' in named ? named.each : Object.hasOwn(named.fields, name) ? named.fields[name] : undefined;
      const path = what === 'it' ? `its ${name}` : `${what}.${name}`;
      return of === undefined ? [] : [[one, { shape: of, what: path, isOwn }]];
    }),
  );
}

type Item = readonly [unknown, Wanted];

function firstProblem(items: readonly Item[]): string | undefined {
  for (const [value, wanted] of items) {
    const problem = shapeProblem(value, wanted);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

const scalars = { text: 'text', flag: 'true or false', bytes: 'base64' } as const;

function isScalar(value: unknown, shape: keyof typeof scalars): boolean {
  if (shape === 'flag') return typeof value === 'boolean';
  return typeof value === 'string' && (shape === 'text' || isBase64(value));
}

/** Whether encoding/base64 can read it: with padding, and with line ends only between. */
export function isBase64(text: string): boolean {
  const plain = text.replaceAll(/[\r\n]/g, '');
  return plain.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(plain);
}
