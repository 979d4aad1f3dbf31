// What docs/security.md and docs/static-pods.md say of the rights of each account, as grants: the list of exceptions that tests
// hold the API server to is the one that administrators read.
import { type Account, accountName, defaultNamespace as ownNamespace } from '../../../lib/install/accounts.ts';
import type { Artefact } from '../../../lib/inventory/model.ts';
import { isFile } from '../../../lib/inventory/places.ts';
import { loadPreset } from '../../../lib/inventory/preset.ts';
import { codes, firstCode, page, section, tables } from '../../docs/markdown.ts';
import type { Grant } from '../cluster/grants.ts';

type Right = Omit<Grant, 'account'>;

/** The pages name resources without their group. */
const groups: Readonly<Record<string, string>> = {
  apiservices: 'apiregistration.k8s.io',
  certificatesigningrequests: 'certificates.k8s.io',
  configmaps: '',
  events: 'events.k8s.io',
  leases: 'coordination.k8s.io',
  nodes: '',
  signers: 'certificates.k8s.io',
};

function groupOf(resource: string): string {
  const group = groups[resource.replace(/\/.*/, '')];
  if (group === undefined) throw new Error(`docs/security.md: of which group is "${resource}"?`);
  return group;
}

/** Besides the objects of the inventory: `resource` or `resource` `name`, and `in` a namespace. */
function exceptions(account: Account): Right[] {
  const [ofProcesses = [], ofPods = []] = tables(section(page('docs/security.md'), 'Rights of each account'));
  return [...ofProcesses, ...ofPods].flatMap(([who = '', may = '', of = '']) => {
    if (firstCode(who) !== account) return [];
    const [what = '', where = ''] = of.split(' in ', 2);
    const [resource = '', name] = codes(what);
    const [namespace] = codes(where);
    return may.split(', ').map((verb) => ({ verb, group: groupOf(resource), resource, name, namespace }));
  });
}

const resourceOf = ({ location }: Artefact): string => (location.kind === 'secret' ? 'secrets' : 'configmaps');
const nameOf = ({ location }: Artefact): string => ('namespace' in location ? location.name : '');

function onObjects(account: Account): Right[] {
  const artefacts = loadPreset('kubernetes').artefacts.filter(({ location }) => !isFile(location));
  const rights = (resource: string, name: string, verbs: readonly string[]): Right[] =>
    verbs.map((verb) => ({ verb, group: '', resource, name, namespace: ownNamespace }));
  if (account === 'regen') {
    const verbs = ({ kind }: Artefact) => (kind === 'keyPair' ? ['get'] : ['get', 'update', 'patch', 'create']);
    return artefacts.flatMap((one) => rights(resourceOf(one), nameOf(one), verbs(one)));
  }
  const watch = ['get', 'list', 'watch'];
  if (account === 'syncer') {
    const published = artefacts.filter((one) => one.published !== undefined);
    return published.flatMap((one) => rights(resourceOf(one), nameOf(one), watch));
  }
  const [rows = []] = tables(section(page('docs/static-pods.md'), 'Who can do what'));
  return rows.flatMap(([pod = '', kind = '', names = '']) => {
    if (`syncer-${firstCode(pod)}` !== account) return [];
    return codes(names).flatMap((name) => rights(kind.toLowerCase(), name, watch));
  });
}

/** Everything that an account may, but for what every ServiceAccount may. */
export function documentedRights(account: Account): Grant[] {
  return [...onObjects(account), ...exceptions(account)].map((right) => ({ ...right, account: accountName(account) }));
}
