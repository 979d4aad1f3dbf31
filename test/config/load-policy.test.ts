// Whether what is about to expire is renewed ahead of time: the inventory knows who else rotates it, and a configuration
// beats the inventory.
import { expect, it } from 'vitest';
import type { ConfigFlags } from '../../lib/config/flags.ts';
import { parseConfig } from '../../lib/config/load.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';

const own = (...lines: readonly string[]): string =>
  ['inventory:', ...lines, '  artefacts: [{ kind: opaque, name: o, location: { secret: s, namespace: n } }]'].join(
    '\n',
  );

const policyOf = (...lines: readonly string[]): RenewalPolicy | undefined => policyWith({}, lines);

function policyWith(flags: ConfigFlags, lines: readonly string[]): RenewalPolicy | undefined {
  const head = ['apiVersion: kube-cert-recovery/v1alpha1', 'kind: Configuration', 'modes: [regen]', 'kubeconfig: /k'];
  const file = { path: '/etc/recovery.yaml', text: [...head, ...lines].join('\n') };
  const [mode] = parseConfig({ flags, file, env: {}, cwd: '/', presets: installedPresets }).modes;
  return mode?.mode === 'regen' ? mode.policy : undefined;
}

const owner = { kind: 'BeforeExpiry', graceMs: 0, settleMs: 1000, caRenewal: 'SameKey' } as const;
const only = { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000, caRenewal: 'SameKey' } as const;

it.each([
  ['a preset that nobody else rotates', ['preset: kubernetes', 'parameters: { apiServerHostnames: [a] }'], owner],
  ["presets of OpenShift's operators", ['preset: openshift-kube-apiserver'], only],
  ['the files of kubeadm', ['preset: kubeadm'], only],
  ['an inventory that says nothing', [own()], only],
  ['an inventory that says so', [own('  policy: { kind: BeforeExpiry }')], owner],
] as const)('%s has its own policy, and a configuration beats it', (_, lines, policy) => {
  expect(policyOf(...lines)).toEqual(policy);
  expect(policyOf(...lines, 'policy: { kind: OnlyWhenExpired }')).toEqual(only);
  expect(policyOf(...lines, 'policy: { kind: BeforeExpiry }')).toEqual(owner);
  expect(policyOf(...lines, 'policy: { grace: 2m }')).toEqual({ ...policy, graceMs: 120_000 });
});

it.each([
  ['in one piece', `SHA256:${'0A'.repeat(32)}`],
  ['as openssl prints it', `sha256 Fingerprint=${Array.from({ length: 32 }, () => '0A').join(':')}`],
])('a CA is accepted by its fingerprint, %s', (_name, text) => {
  const accepted = new Set(['0a'.repeat(32)]);
  expect(policyWith({ acceptCa: [text] }, ['preset: kubeadm'])?.acceptedAuthorities).toEqual(accepted);
  const file = `regen: { acceptCa: ['${text}'] }`;
  expect(policyOf('preset: kubeadm', file)?.acceptedAuthorities).toEqual(accepted);
  expect(() => policyWith({ acceptCa: [text.slice(0, -1)] }, ['preset: kubeadm'])).toThrow('--accept-ca');
  expect(() => policyOf('preset: kubeadm', 'regen: { acceptCa: [CN=ca] }')).toThrow('regen.acceptCa[0]');
});

it('a signer waits for nodes where the configuration says for which files, and not for nodes that were accepted', () => {
  const file = 'regen: { waitForNodes: { csr-signer-signer: [kubelet-client-ca] }, acceptLagging: [a] }';
  const waitForNodes = new Map([['csr-signer-signer', ['kubelet-client-ca']]]);
  const kubernetes = ['preset: kubernetes', 'parameters: { apiServerHostnames: [] }'];
  expect(policyOf(...kubernetes, file)).toMatchObject({ waitForNodes, acceptedLagging: new Set(['a']) });
  expect(policyWith({ acceptLagging: ['b', 'c'] }, [...kubernetes, file])?.acceptedLagging).toEqual(
    new Set(['b', 'c']),
  );
  expect(policyOf(...kubernetes)).not.toHaveProperty('waitForNodes');
  const misspelt = file.replace('csr-signer-signer', 'csr-signer-signr');
  expect(() => policyOf(...kubernetes, misspelt)).toThrow(
    'regen.waitForNodes.csr-signer-signr: must be a signer of the inventory, got "csr-signer-signr" (did you mean',
  );
});

it('an expired CA in files is renewed with its own key unless the file or the flag says otherwise', () => {
  const [same, report] = [policyOf('preset: kubeadm'), policyOf('preset: kubeadm', 'regen: { caRenewal: Report }')];
  expect([same?.caRenewal, report?.caRenewal]).toEqual(['SameKey', 'Report']);
  const flag = policyWith({ caRenewal: 'SameKey' }, ['preset: kubeadm', 'regen: { caRenewal: Report }']);
  expect(flag?.caRenewal).toBe('SameKey');
  expect(() => policyWith({ caRenewal: 'NewKey' }, ['preset: kubeadm'])).toThrow('--ca-renewal');
});
