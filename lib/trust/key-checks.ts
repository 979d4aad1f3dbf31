// Relations of keys: the keys of tokens against their public keys, those of CAs and leaves against their certificates.
// No date ends them. Pure.
import type { KeyObject } from 'node:crypto';
import { componentNames } from '../components.ts';
import { filesOfFlags } from '../inventory/discover/files-of-flags.ts';
import { fileFlags, flagName, type FlagOf } from '../inventory/file-flags.ts';
import { keyMatches, publicKeyMatches } from '../pki/key.ts';
import { type RelationCheck, type RuleOf, timeless } from './check.ts';
import {
  type TrustJudgement,
  certificatesAt,
  certificatesOfSource,
  type Chain,
  contentAt,
  fails,
  fileNamed,
  filesNamed,
  type Sought,
  held,
  keyAt,
  keyOfSource,
  type Side,
  type TrustFacts,
  valuesOf,
  viewOf,
} from './trust-facts.ts';

export function tokenKeyCheck({ credential: flag, trust: keys }: RuleOf<'tokenKey'>, facts: TrustFacts): RelationCheck {
  const { value: file, lack } = fileNamed(facts, flag);
  const { value: publicFiles, lack: none } = filesNamed(facts, keys);
  const credential = file ?? { name: flagName(flag) };
  const trust = { name: flagName(keys), file: publicFiles?.map((one) => one.file).join(', ') };
  if (file === undefined) return timeless(credential, trust, lack);
  if (publicFiles === undefined) return timeless(credential, trust, none);
  const { value: key, lack: unusable } = keyAt(facts, file.file);
  if (key === undefined) return timeless(credential, trust, unusable);
  const found = publicFiles.map((one) =>
    contentAt(facts, one.file, (bytes) => publicKeyMatches(bytes, key, `"${one.file}"`)),
  );
  if (found.some(({ value }) => value === true)) return timeless(credential, trust, held);
  const problem = found.flatMap((one) => one.lack ?? []);
  return timeless(credential, trust, problem[0] ?? fails('its public key is not among those that verify tokens'));
}

/** Every CA that kube-controller-manager signs with; its file holds one certificate (pkg/controller/certificates/signer). */
export function signerKeyChecks(
  { credential, trust }: RuleOf<'signerKeys'>,
  facts: TrustFacts,
): readonly RelationCheck[] {
  const { component } = trust;
  const signers = Object.entries(fileFlags[component]).flatMap(([flag, role]) =>
    role.holds === 'signer' && valuesOf(facts, { component, flag }).length > 0 ? [{ flag, keyFlag: role.keyFlag }] : [],
  );
  const all = signers.length > 0 ? signers : [{ flag: trust.flag, keyFlag: credential.flag }];
  return all.map(({ flag, keyFlag }) => {
    const [cert, key]: readonly [FlagOf, FlagOf] = [
      { component, flag },
      { component, flag: keyFlag },
    ];
    const [certFile, keyFile] = [fileNamed(facts, cert), fileNamed(facts, key)];
    const [owner, of] = [keyFile.value ?? { name: flagName(key) }, certFile.value ?? { name: flagName(cert) }];
    if (certFile.value === undefined) return timeless(owner, of, certFile.lack);
    if (keyFile.value === undefined) return timeless(owner, of, keyFile.lack);
    const chain = certificatesAt(facts, certFile.value.file);
    const count = chain.value?.length ?? 1;
    const answer =
      count > 1
        ? fails(`"${certFile.value.file}" holds ${count} certificates, and kube-controller-manager takes one alone`)
        : pairAnswer(chain, keyAt(facts, keyFile.value.file));
    return timeless(owner, of, answer);
  });
}

export function pairChecks(facts: TrustFacts): readonly RelationCheck[] {
  const pairs = filesOfFlags(facts.settings, facts.moved).flatMap(
    ({ component, flag, role, file, keyFile, keyFlag }) =>
      role.holds === 'pair' && keyFile !== undefined
        ? [
            pairCheck(
              { name: flagName({ component, flag }), file },
              { name: flagName({ component, flag: keyFlag ?? flag }), file: keyFile },
              [certificatesAt(facts, file), keyAt(facts, keyFile)],
            ),
          ]
        : [],
  );
  const kubeconfigs = facts.kubeconfigs.flatMap((one) => {
    const { name, file } = one;
    const { value: view, lack } = viewOf(facts, one);
    if (view === undefined)
      return lack.verdict === 'notApplicable' ? [] : [timeless({ name, file }, { name, file }, lack)];
    if (view.certificate.kind === 'none') return [];
    const keyFile = view.key.kind === 'file' ? view.key.file : file;
    const pair = [certificatesOfSource(facts, view.certificate, file), keyOfSource(facts, view.key, file)] as const;
    return [pairCheck({ name, file }, { name, file: keyFile }, pair)];
  });
  const doubted = componentNames.flatMap((component) => {
    const { [component]: doubt } = facts.doubts;
    const name = { name: component };
    return doubt === undefined ? [] : [timeless(name, name, { verdict: 'unknown', reason: doubt })];
  });
  return [...pairs, ...kubeconfigs, ...doubted];
}

const pairCheck = (
  credential: Side,
  trust: Side,
  [chain, key]: readonly [Sought<Chain>, Sought<KeyObject>],
): RelationCheck => timeless(credential, trust, pairAnswer(chain, key));

function pairAnswer(chain: Sought<Chain>, key: Sought<KeyObject>): TrustJudgement {
  if (chain.value === undefined) return chain.lack;
  if (key.value === undefined) return key.lack;
  return keyMatches(chain.value[0], key.value) ? held : fails('the certificate was made for another key');
}
