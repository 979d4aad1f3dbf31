// A relation on one machine: who presents which file there, who verifies it by which, and the answer at a time. Pure.
import { bareHost } from '../address.ts';
import { flagName, type FlagOf } from '../inventory/file-flags.ts';
import { type Certificate, isSameAuthority } from '../pki/certificate.ts';
import { rootRefusal, signatureMatches, verifyChain } from '../pki/verify.ts';
import { type RelationCheck, type RuleOf, timeless } from './check.ts';
import { isOfMachine, namesMet, sniFor } from './met-names.ts';
import { pairChecks, signerKeyChecks, tokenKeyCheck } from './key-checks.ts';
import { type Direction, publishedText, type Relation } from './relations.ts';
import {
  type TrustJudgement,
  certificatesAt,
  certificatesOfSource,
  type Chain,
  fails,
  fileNamed,
  type Sought,
  held,
  isElsewhere,
  notApplicable,
  type Side,
  trusted,
  type TrustFacts,
  unknown,
  valuesOf,
  viewOf,
} from './trust-facts.ts';

/** Returns the checks of a relation, one at least. */
export function checksOf(relation: Relation, facts: TrustFacts): readonly RelationCheck[] {
  return [...checksOfRule(relation, facts), ...publishedChecks(relation, facts), ...metChecks(relation, facts)];
}

function checksOfRule({ rule }: Relation, facts: TrustFacts): readonly RelationCheck[] {
  switch (rule.kind) {
    case 'certificate':
      return rule.directions.flatMap((direction) => certificateChecks(rule.credential, direction, facts));
    case 'issued':
      return [issuedCheck(rule, facts)];
    case 'kubeconfigClient':
      return orNone(clientChecks(rule, facts));
    case 'kubeconfigServer':
      return orNone(serverChecks(rule, facts));
    case 'tokenKey':
      return [tokenKeyCheck(rule, facts)];
    case 'signerKeys':
      return signerKeyChecks(rule, facts);
    case 'pairs':
      return orNone(pairChecks(facts));
  }
}

const orNone = (checks: readonly RelationCheck[]): readonly RelationCheck[] =>
  checks.length > 0
    ? checks
    : [timeless({ name: 'none' }, { name: 'none' }, notApplicable('there is none on this machine'))];

interface Handshake extends Pick<Direction, 'usages'> {
  readonly credential: Side;
  readonly trust: Side;
  readonly chain: Sought<Chain>;
  readonly roots: Sought<readonly Certificate[]>;
  readonly names?: readonly string[];
  /** Common names that are allowed; none: all are. */
  readonly commonNames?: readonly string[];
  /** Whether who verifies it runs on another machine: then what every verifier refuses is known all the same. */
  readonly isElsewhere?: boolean;
}

function handshake({
  credential,
  trust,
  chain,
  roots,
  usages,
  names = [],
  commonNames = [],
  isElsewhere: isAlone = false,
}: Handshake): RelationCheck {
  if (chain.value === undefined) return timeless(credential, trust, chain.lack);
  const [leaf, ...intermediates] = chain.value;
  if (roots.value === undefined) {
    const { lack } = roots;
    if (!isAlone) return timeless(credential, trust, lack);
    const answer = (at: Date): TrustJudgement => {
      const refused = usages.map((usage) => verifyChain({ leaf, intermediates: [], roots: [leaf], at, usage }));
      return refused.flatMap((one) => (one.ok ? [] : [fails(one.reason)]))[0] ?? lack;
    };
    return { credential, trust, certificates: [leaf], answer };
  }
  const { value: among } = roots;
  const answer = (at: Date): TrustJudgement => {
    if (among.length === 0) return fails(`no certificate is left in ${trust.name}`);
    const { commonName } = leaf.facts;
    if (commonNames.length > 0 && !commonNames.includes(commonName))
      return fails(`its common name "${commonName}" is not allowed: ${commonNames.join(', ')}`);
    const questions = usages.flatMap((usage) =>
      (names.length === 0 || usage === 'clientAuth' ? [undefined] : names).map((hostname) => ({ usage, hostname })),
    );
    for (const question of questions) {
      const verified = verifyChain({ leaf, intermediates, roots: among, at, ...question });
      if (!verified.ok) return fails(verified.reason);
    }
    return held;
  };
  return { credential, trust, certificates: [...chain.value, ...among], answer };
}

/** Returns the CAs that a flag names. */
function rootsOf(facts: TrustFacts, { trust, isDemanded }: Direction): Sought<readonly Certificate[]> & { side: Side } {
  const { value: file, lack } = fileNamed(facts, trust);
  if (file !== undefined) return { ...trusted(facts, certificatesAt(facts, file.file)), side: file };
  const isUnset = facts.settings[trust.component] !== undefined && lack.verdict === 'notApplicable';
  const answer = isUnset && isDemanded === true ? fails(`${lack.reason}, so it accepts no client certificate`) : lack;
  return { lack: answer, side: { name: flagName(trust) } };
}

interface RootsMet {
  readonly trust: Side;
  readonly roots: Sought<readonly Certificate[]>;
  readonly commonNames: readonly string[];
  readonly isElsewhere: boolean;
}

function certificateChecks(credential: FlagOf, direction: Direction, facts: TrustFacts): readonly RelationCheck[] {
  const { commonNames } = direction;
  const { side: trust, ...roots } = rootsOf(facts, direction);
  if (isOtherClient(credential, direction, facts)) return [];
  return shownTo(credential, direction, facts, {
    trust,
    roots,
    commonNames: commonNames === undefined ? [] : valuesOf(facts, commonNames).flatMap((list) => list.split(',')),
    isElsewhere: isElsewhere(facts, direction.trust.component),
  });
}

/** Against what is published in the API; none where the API was not asked, or does not have it. */
function publishedChecks({ rule, published }: Relation, facts: TrustFacts): readonly RelationCheck[] {
  if (published === undefined || (rule.kind !== 'certificate' && rule.kind !== 'kubeconfigServer')) return [];
  const name = publishedText(published, published.key);
  if (!facts.files.has(name)) return [];
  const [direction] = rule.kind === 'certificate' ? rule.directions : [];
  const { commonNamesKey } = published;
  const listed = commonNamesKey === undefined ? undefined : facts.files.get(publishedText(published, commonNamesKey));
  const met = { usages: direction?.usages ?? (['serverAuth'] as const), names: direction?.names };
  return shownTo(rule.credential, met, facts, {
    trust: { name },
    roots: trusted(facts, certificatesAt(facts, name)),
    commonNames: listed?.bytes === undefined ? [] : Buffer.from(listed.bytes).toString().split(','),
    isElsewhere: false,
  });
}

/** What servers of the cluster have shown, against what is published, else against what the flag names. */
function metChecks({ id, rule, published }: Relation, facts: TrustFacts): readonly RelationCheck[] {
  return facts.servers.flatMap(({ id: of, name: server, hostname }) => {
    const [direction] = rule.kind === 'certificate' ? rule.directions : [];
    if (of !== id || direction === undefined) return [];
    const name = published && publishedText(published, published.key);
    const { side: trust, ...roots } =
      name === undefined
        ? rootsOf(facts, direction)
        : { side: { name }, ...trusted(facts, certificatesAt(facts, name)) };
    const chain = certificatesAt(facts, server);
    return handshake({ credential: { name: server }, trust, chain, roots, usages: ['serverAuth'], names: [hostname] });
  });
}

function shownTo(
  credential: FlagOf,
  { usages, names: rule }: Pick<Direction, 'usages' | 'names'>,
  facts: TrustFacts,
  met: RootsMet,
): readonly RelationCheck[] {
  const { trust } = met;
  const { value: own, lack } = fileNamed(facts, credential);
  if (own === undefined) return [timeless({ name: flagName(credential) }, trust, lack)];
  const names = namesMet(rule, facts);
  // One certificate may be shown for some of the names, and another one for the rest.
  const isServer = credential.component === 'kube-apiserver' && credential.flag === 'tls-cert-file';
  const shown = Map.groupBy(names.length === 0 ? [undefined] : names, (name) =>
    isServer && name !== undefined ? (sniFor(name, facts)?.file ?? own.file) : own.file,
  );
  return [...shown].map(([file, some]) =>
    handshake({
      ...met,
      credential: file === own.file ? own : { name: 'kube-apiserver --tls-sni-cert-key', file },
      chain: certificatesAt(facts, file),
      usages,
      names: some.flatMap((name) => name ?? []),
    }),
  );
}

/** Whether etcd has another certificate as its own client. */
const isOtherClient = ({ component, flag }: FlagOf, { usages }: Direction, facts: TrustFacts): boolean =>
  component === 'etcd' &&
  !usages.includes('serverAuth') &&
  valuesOf(facts, { component, flag: flag.replace('cert-file', 'client-cert-file') }).length > 0;

/**
 * Certificates that a CA signs for requests are sent without the CA's own certificate, so one of its name and key must
 * be trusted itself.
 */
function issuedCheck({ credential: flags, direction }: RuleOf<'issued'>, facts: TrustFacts): RelationCheck {
  const flag = flags.find((one) => valuesOf(facts, one).length > 0) ?? flags[0];
  const { side: trust, value: roots, lack: none } = rootsOf(facts, direction);
  const { value: own, lack } = fileNamed(facts, flag);
  if (own === undefined) return timeless({ name: flagName(flags.at(-1) ?? flag) }, trust, lack);
  const { value: chain, lack: unreadable } = certificatesAt(facts, own.file);
  if (chain === undefined) return timeless(own, trust, unreadable);
  if (roots === undefined) return timeless(own, trust, none);
  const [signer] = chain;
  const same = roots.filter((root) => isSameAuthority(root, signer));
  const answer = (at: Date): TrustJudgement => {
    const [usage] = direction.usages;
    const refusals = same.map((root) => rootRefusal(root, { at, usage }));
    const problem = rootRefusal(signer, { at, usage });
    if (problem !== undefined) return fails(problem);
    if (refusals.includes(undefined)) return held;
    return fails(refusals[0] ?? `CA "${signer.facts.subject}" is not among the trusted certificates`);
  };
  return { credential: own, trust, certificates: [signer, ...same], answer };
}

function clientChecks({ direction }: RuleOf<'kubeconfigClient'>, facts: TrustFacts): readonly RelationCheck[] {
  const { side: trust, ...roots } = rootsOf(facts, direction);
  return facts.kubeconfigs.map((one) => {
    const credential = { name: one.name, file: one.file };
    const { value: view, lack } = viewOf(facts, one);
    if (view === undefined) return timeless(credential, trust, lack);
    const chain = certificatesOfSource(facts, view.certificate, one.file);
    const isAlone = isElsewhere(facts, direction.trust.component);
    return handshake({ credential, trust, chain, roots, usages: direction.usages, isElsewhere: isAlone });
  });
}

function serverChecks({ credential: flag }: RuleOf<'kubeconfigServer'>, facts: TrustFacts): readonly RelationCheck[] {
  return facts.kubeconfigs.map((one) => {
    const trust = { name: one.name, file: one.file };
    const { value: view, lack } = viewOf(facts, one);
    if (view === undefined) return timeless({ name: flagName(flag) }, trust, lack);
    const url = URL.parse(view.server ?? '');
    const host = url === null ? '' : bareHost(url);
    const name = view.serverName ?? host;
    const { value: own, lack: none } = fileNamed(facts, flag);
    if (own === undefined) return timeless({ name: flagName(flag) }, trust, none);
    const credential = sniFor(name, facts) ?? own;
    if (url?.protocol !== 'https:' || view.insecure)
      return timeless(credential, trust, notApplicable(`"${one.file}" verifies no server`));
    const chain = certificatesAt(facts, credential.file);
    if (view.authority.kind === 'none') {
      const reason = `"${one.file}" has no CA, so the CAs of the operating system count`;
      return timeless(credential, trust, unknown(reason));
    }
    const authority = certificatesOfSource(facts, view.authority, one.file);
    const roots = trusted(facts, authority);
    if (!isOfMachine(host, facts) && isOfOthers(chain.value, authority.value)) {
      const reason = `the server "${host}" is not this machine, and its certificate is not known here`;
      return timeless(credential, trust, unknown(reason));
    }
    return handshake({ credential, trust, chain, roots, usages: ['serverAuth'], names: [name] });
  });
}

/** Whether a kubeconfig for another host trusts another CA than that of this API server, as for a load balancer. */
const isOfOthers = (chain: Chain | undefined, authorities: Chain | undefined): boolean =>
  chain !== undefined &&
  authorities !== undefined &&
  !chain.some((one) => authorities.some((authority) => signatureMatches(one, authority)));
