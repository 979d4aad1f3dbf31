// The three presets of OpenShift, each in a process of its own beside an API server that was switched off and on: how
// long they need together when everything has expired, and one of them for updates of the objects that it writes to disk.
import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { systemClock } from '../../lib/clock.ts';
import { readNamesInApi } from '../../lib/inventory/discover/openshift.ts';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { withNames } from '../../lib/inventory/names-in-api.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import { createApiStore } from '../../lib/store/api-store.ts';
import { type ControlPlane, startControlPlane } from '../../test/support/cluster/control-plane.ts';
import { openshiftPresets } from '../../test/support/cluster/openshift-objects.ts';
import {
  expireOpenshift,
  giveBundles,
  giveNames,
  grantRegen,
  type Preset,
  prepareOpenshift,
} from '../../test/support/cluster/openshift.ts';
import { type Line, Tool } from '../../test/support/cluster/recovery-world.ts';
import { contentsInApi, problems } from '../../test/support/stories/soundness.ts';
import { putObject } from '../../test/support/cluster/syncing.ts';
import { Admin, timeOf, until, writes } from './probes.ts';
import type { Measured } from './table.ts';
import { acknowledgedToDisk } from './updates.ts';

const quietMs = 3000;
const [apiserver] = openshiftPresets;

const isWrite = ({ event }: Line): boolean => writes.has(event);
const isCertificate = ({ event }: Line): boolean => event === 'signer.regenerated' || event === 'target.regenerated';
const isAnswer = ({ event }: Line): boolean => event === 'api.answered';

class OpenshiftApi implements AsyncDisposable {
  readonly scratch: string;
  readonly controlPlane: ControlPlane;
  readonly #kubeconfigs = new Map<Preset, string>();

  private constructor(scratch: string, controlPlane: ControlPlane) {
    this.scratch = scratch;
    this.controlPlane = controlPlane;
  }

  /** Every object of all three is made, by the programs themselves. */
  static async create(): Promise<OpenshiftApi> {
    const scratch = await mkdtemp(join(tmpdir(), 'openshift-bench-'));
    const api = new OpenshiftApi(scratch, await startControlPlane({ restarts: 50, unsafeNoFsync: false }));
    await prepareOpenshift(api.controlPlane);
    await giveNames(api.controlPlane);
    await giveBundles(api.controlPlane);
    for (const preset of openshiftPresets) {
      const resolved = resolve(loadPreset(preset), {});
      const granted = { resolved, namespace: preset, directory: scratch };
      api.#kubeconfigs.set(preset, await grantRegen(api.controlPlane, granted));
    }
    for (const preset of [...openshiftPresets, ...openshiftPresets]) await api.start(preset, '--once').ended;
    return api;
  }

  start(preset: Preset, ...args: readonly string[]): Tool {
    return new Tool(['--mode=regen', `--preset=${preset}`, `--kubeconfig=${this.#kubeconfigs.get(preset)}`, ...args]);
  }

  async expire(): Promise<void> {
    const connection = await openConnection({
      kubeconfigFile: this.controlPlane.recoveryKubeconfig,
      clock: systemClock,
      userAgent: 'bench',
    });
    const store = createApiStore({ connection, fieldManager: 'bench' });
    const names = await readNamesInApi(connection, AbortSignal.timeout(5000));
    await expireOpenshift((preset) =>
      Promise.resolve({ resolved: withNames(resolve(loadPreset(preset), {}), names), store }),
    );
    await connection.close();
  }

  async faults(): Promise<string[]> {
    const each = openshiftPresets.map(async (preset) => {
      const resolved: Resolved = resolve(loadPreset(preset), {});
      return problems(resolved, await contentsInApi(this.controlPlane, resolved), systemClock.now());
    });
    return (await Promise.all(each)).flat();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.controlPlane[Symbol.asyncDispose]();
    await rm(this.scratch, { recursive: true, force: true });
  }
}

/** m: all three wait for the API server, as on a machine that is switched on. */
export async function openshiftRecoveries(count: number): Promise<Measured[]> {
  await using api = await OpenshiftApi.create();
  const made: number[] = [];
  const valid: number[] = [];
  for (let n = -1; n < count; n += 1) {
    await api.expire();
    await api.controlPlane.kill();
    const tools = openshiftPresets.map((preset) => api.start(preset));
    await delay(2000);
    await api.controlPlane.start({ wait: false });
    const newest = (): number => Math.max(...tools.map(({ lines }) => lines.findLast(isWrite)?.at ?? Infinity));
    for (const tool of tools) await until(tool, () => performance.now() - newest() > quietMs);
    while ((await api.faults()).length > 0) await delay(quietMs);
    const lines = tools.flatMap((tool) => tool.lines);
    const began = Math.min(...lines.filter(isAnswer).map(timeOf));
    const written = lines.filter(isWrite);
    if (n >= 0) {
      made.push(Math.max(...written.filter(isCertificate).map(timeOf)) - began);
      valid.push(Math.max(...written.map(timeOf)) - began);
    }
    await Promise.all(tools.map((tool) => tool.stop()));
  }
  const unit = 'ms';
  return [
    { what: 'OpenShift: first 200 to last certificate made', unit, values: made },
    { what: 'OpenShift: first 200 to all valid, three processes', unit, values: valid, goal: '<= 1000' },
  ];
}

const published = ({ artefacts }: Resolved): ResolvedArtefact[] =>
  artefacts.filter((row) => row.published === 'required');

/** What others make: without it the list is not complete. */
async function giveOthers({ controlPlane }: OpenshiftApi, resolved: Resolved): Promise<void> {
  const pair = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  for (const row of published(resolved)) {
    const { location } = row;
    if (location.kind !== 'secret' && location.kind !== 'configMap') continue;
    if (row.kind === 'keyPair') {
      await putObject(controlPlane, location, { [row.privateKey]: pair.privateKey, [row.publicKey]: pair.publicKey });
    }
    if (row.kind === 'opaque') await putObject(controlPlane, location, { config: row.name });
  }
}

/** n: each object of the kube-apiserver's list in turn. */
export async function openshiftUpdates(count: number): Promise<Measured[]> {
  await using api = await OpenshiftApi.create();
  const resolved = resolve(loadPreset(apiserver), {});
  await giveOthers(api, resolved);
  const rows = published(resolved);
  const destination = join(api.scratch, 'certs');
  const args = ['--mode=syncer', `--preset=${apiserver}`, `--destination-dir=${destination}`];
  const tool = new Tool([...args, `--kubeconfig=${api.controlPlane.recoveryKubeconfig}`]);
  await until(tool, (lines) => lines.filter(({ event }) => event === 'sync.written').length >= rows.length);
  await delay(2000);
  const admin = new Admin(api.controlPlane);
  const objects = rows.flatMap(({ location }) => {
    if (location.kind !== 'secret' && location.kind !== 'configMap') return [];
    const { kind, namespace, name } = location;
    const resource = kind === 'secret' ? 'secrets' : 'configmaps';
    const path = `/api/v1/namespaces/${namespace}/${resource}/${name}`;
    return [{ path, kind, file: join(destination, resource, name, 'generation') }];
  });
  const what = 'OpenShift: update acknowledged to content on disk';
  const measured = await acknowledgedToDisk({ what, goal: 'p99 <= 20', count, warmUp: 1, objects, admin });
  admin.close();
  await tool.stop();
  return measured;
}
