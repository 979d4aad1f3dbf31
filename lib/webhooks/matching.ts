// What selectors and rules of admission webhooks and policies apply to, among the objects that recovery writes. Pure.
import type { ApiLocation } from '../inventory/model.ts';

type Labels = Readonly<Record<string, string>>;

interface Requirement {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[] | null;
}
export interface Selector {
  readonly matchLabels?: Labels;
  readonly matchExpressions?: readonly Requirement[];
}
export interface Rule {
  readonly apiGroups?: readonly string[];
  readonly apiVersions?: readonly string[];
  readonly operations?: readonly string[];
  readonly resources?: readonly string[];
  readonly scope?: string;
  /** Of policies only; empty or absent: all names. */
  readonly resourceNames?: readonly string[] | null;
}

/** An object that recovery writes. */
export interface WrittenObject {
  readonly location: ApiLocation;
  /** Those it has now, and those that it will have: a selector is asked about the object before the write and after it. */
  readonly labels: readonly Labels[];
}

/** Labels by namespace; one that is not known has only its name. */
export type NamespaceLabels = ReadonlyMap<string, Labels>;

export const nameLabel = 'kubernetes.io/metadata.name';

export interface Reach {
  readonly namespaceSelector?: Selector;
  readonly objectSelector?: Selector;
}

/** Whether both selectors take the object in. */
export function reaches(
  { namespaceSelector, objectSelector }: Reach,
  { location, labels }: WrittenObject,
  namespaces: NamespaceLabels,
): boolean {
  const { namespace } = location;
  return (
    selects(namespaceSelector, { [nameLabel]: namespace, ...namespaces.get(namespace) }) &&
    labels.some((each) => selects(objectSelector, each))
  );
}

export const isRestricting = ({ matchLabels = {}, matchExpressions = [] }: Selector = {}): boolean =>
  Object.keys(matchLabels).length + matchExpressions.length > 0;

const has = (list: readonly string[], ...wanted: readonly string[]): boolean =>
  wanted.some((one) => list.includes(one));

export function covers(
  { apiGroups = [], apiVersions = [], operations = [], resources = [], scope, resourceNames }: Rule,
  object: ApiLocation,
): boolean {
  const resource = object.kind === 'secret' ? 'secrets' : 'configmaps';
  return (
    scope !== 'Cluster' &&
    has(apiGroups, '', '*') &&
    has(apiVersions, 'v1', '*') &&
    has(operations, 'CREATE', 'UPDATE', '*') &&
    has(resources, resource, '*', '*/*') &&
    ((resourceNames ?? []).length === 0 || has(resourceNames ?? [], object.name))
  );
}

/** As metav1.LabelSelectorAsSelector: an absent or empty selector selects everything. */
function selects(
  { matchLabels = {}, matchExpressions = [] }: Selector = {},
  labels: Readonly<Record<string, string>>,
): boolean {
  const expressions = matchExpressions.every(({ key, operator, values }) => {
    const value = labels[key];
    const isListed = value !== undefined && (values ?? []).includes(value);
    switch (operator) {
      case 'In':
        return isListed;
      case 'NotIn':
        return !isListed;
      case 'Exists':
        return value !== undefined;
      case 'DoesNotExist':
        return value === undefined;
      default:
        return true; // an operator of a later version: better a warning too many
    }
  });
  return expressions && Object.entries(matchLabels).every(([key, value]) => labels[key] === value);
}
