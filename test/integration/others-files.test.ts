// Whatever lies in the place of a file that the preset names on a machine of the real kubeadm whose leaves have all expired: 200
// kinds of content that are none of a damaged file of the role (test/support/faults/contents-of-others.ts), and what is no file.
// Not a byte of it changes, each is named, and no run says that all is well.
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { resolveHere } from '../../cmd/read-config.ts';
import { systemClock } from '../../lib/clock.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { expire } from '../support/cluster/expire.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';
import { asRoot, unseen } from '../support/cluster/namespaces.ts';
import type { OtherCluster } from '../support/faults/contents-of-others.ts';

const child = fileURLToPath(new URL('../support/faults/others-child.ts', import.meta.url));

let machine: KubeadmMachine;
let other: KubeadmMachine;
let cluster: OtherCluster;
beforeAll(async () => {
  [machine, other] = await Promise.all([KubeadmMachine.create(), KubeadmMachine.create()]);
  const text = (path: string): Promise<string> => readFile(other.path(path), 'utf8');
  const elsewhere = async (): Promise<string> =>
    (await text('admin.conf')).replace(/server: .*/, 'server: https://api.example.com:6443');
  const sound = { kubeconfig: await elsewhere(), certificate: await text('pki/ca.crt'), key: await text('pki/ca.key') };
  await Promise.all([expireLeaves(machine), expireLeaves(other)]);
  cluster = { ...sound, expired: await elsewhere() };
});
afterAll(() => Promise.all([machine?.[Symbol.asyncDispose](), other?.[Symbol.asyncDispose]()]));

async function expireLeaves({ directories }: KubeadmMachine): Promise<void> {
  const environment = { directories };
  const resolved = await resolveHere({ inventory: loadPreset('kubeadm'), environment });
  const store = createDiskStore();
  const found = await Promise.all(
    resolved.artefacts.map(({ location }) => store.read(location, AbortSignal.timeout(60_000))),
  );
  const artefacts = resolved.artefacts.filter((_, at) => found[at] !== undefined);
  const except = ({ kind }: { readonly kind: string }): boolean => kind !== 'target';
  const span = { now: systemClock.now(), agoMs: 30_000, lifeMs: 60_000 };
  await expire({ resolved: { ...resolved, artefacts }, store, except, ...span });
}

it('no byte changes of what is no damaged file of its role, and each is named', async () => {
  const args = ['kubeadm', machine.root, JSON.stringify(machine.directories), JSON.stringify(cluster)];
  const { stdout } = await promisify(execFile)(
    'unshare',
    [...asRoot, '--net', ...unseen, process.execPath, child, ...args],
    { maxBuffer: 1 << 26 },
  );
  const { kinds, places, violations } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '{}') as {
    readonly kinds: number;
    readonly places: number;
    readonly violations: readonly string[];
  };
  expect(violations).toEqual([]);
  expect(kinds).toBeGreaterThanOrEqual(200);
  expect(places).toBeGreaterThanOrEqual(25);
}, 300_000);
