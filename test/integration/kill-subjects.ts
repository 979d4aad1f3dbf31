// What is killed in the middle of its recovery (recovery-kill.test.ts): the whole program on one control plane, from
// `init render` on, with the files of its host; and OpenShift's three presets, a process each on two machines.
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../lib/clock.ts';
import type { Resolved } from '../../lib/inventory/model.ts';
import { withNames } from '../../lib/inventory/names-in-api.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import { toYaml } from '../../lib/yaml.ts';
import { startControlPlane } from '../support/cluster/control-plane.ts';
import { expireAll } from '../support/cluster/expire.ts';
import { watchGenerations } from '../support/stories/generations.ts';
import { ObjectHistory } from '../support/stories/object-history.ts';
import { giveNames, grant, prepareOpenshift } from '../support/cluster/openshift.ts';
import {
  externalBundle,
  namespacesOf,
  openshiftNames,
  presetWorld,
  unlikeOnce,
} from '../support/stories/preset-worlds.ts';
import { isRecovery, type Line, publishMaterial, RecoveryWorld, Tool } from '../support/cluster/recovery-world.ts';
import { type Contents, contentsInApi } from '../support/stories/soundness.ts';
import { Actor } from './regen-world.ts';

/** One process of the program, and what it publishes. */
export interface Process {
  readonly resolved: Resolved;
  readonly certs: string;
  start(onLine: (line: Line) => void): Tool;
}

export interface KillSubject extends AsyncDisposable {
  readonly processes: readonly Process[];
  /** Files of the host that are not published. */
  readonly hostFiles?: string;
  /** How often everything expires and is killed, */
  readonly rounds: number;
  /** or is asked to end. */
  readonly stops: number;
  /** Everything has ended, in the API and on disk. No process must run. */
  expire(): Promise<void>;
  /** Of that process, in the API and on the host. */
  contents(process: Process): Promise<Contents>;
  /** From now on. `close` says which objects had more or fewer generations than a recovery needs. */
  watch(): Promise<{ close(): Promise<readonly string[]> }>;
}

const asked = process.env['RECOVERY_KILL_ROUNDS'];

export async function kubernetesSubject(): Promise<KillSubject> {
  // The controller manager fills the tokens of our own service accounts, and is not needed afterwards.
  const world = await RecoveryWorld.create({ components: ['etcd', 'kube-apiserver', 'kube-controller-manager'] });
  const { resolved, certs, controlPlane } = world;
  await controlPlane.stopComponent('kube-controller-manager');
  const wanted = new Map(
    resolved.artefacts.flatMap((artefact) =>
      'namespace' in artefact.location && artefact.kind !== 'keyPair'
        ? [[artefact.name, isRecovery(artefact) ? 1 : 2] as const]
        : [],
    ),
  );
  return {
    processes: [{ resolved, certs, start: (onLine) => world.startTool([], onLine) }],
    hostFiles: join(world.root, 'pki'),
    rounds: Number(asked ?? 12),
    stops: 10,
    expire: () => world.expireAll(),
    contents: async () =>
      new Map([...(await contentsInApi(controlPlane, resolved)), ...(await contentsOnHost(resolved))]),
    watch: async () => {
      const generations = await watchGenerations(world);
      return {
        close: async () =>
          Object.entries(await generations.close())
            .filter(([name, count]) => wanted.get(name) !== count)
            .map(([name, count]) => `${name}: ${count} generations`),
      };
    },
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  };
}

/** Of the host's files, which the API knows nothing of. */
async function contentsOnHost({ artefacts }: Resolved): Promise<Contents> {
  const read = (path: string): Promise<string> => readFile(path, 'utf8');
  const contents = new Map<string, Record<string, string>>();
  for (const { name, location } of artefacts) {
    if (location.kind === 'pemPair') {
      contents.set(name, { 'tls.crt': await read(location.certFile), 'tls.key': await read(location.keyFile) });
    } else if (location.kind === 'pemFile') contents.set(name, { 'ca-bundle.crt': await read(location.file) });
  }
  return contents;
}

const machines = 2;
const algorithm = { name: 'ECDSA', curve: 'P-256' } as const;

/** Each process with the rights that `init` gives it. What is not ours is not there: the syncers report it. */
export async function openshiftSubject(): Promise<KillSubject> {
  const root = await mkdtemp(join(tmpdir(), 'openshift-kill-'));
  const controlPlane = await startControlPlane();
  await prepareOpenshift(controlPlane);
  await giveNames(controlPlane);
  const { given, inventories } = presetWorld('openshift');
  const admins = await Promise.all(inventories.map((resolved) => Actor.start(controlPlane, resolved)));
  for (const location of given) {
    const signal = AbortSignal.timeout(60_000);
    await admins[0]?.store.write(location, await externalBundle(location, systemClock.now()), 'absent', signal);
  }
  for (const admin of [...admins, ...admins]) {
    const namesInApi = () => Promise.resolve(openshiftNames);
    const keyPool = createKeyPool({ algorithm, size: 32 });
    await admin.run({ namesInApi, keyPool, keyAlgorithm: algorithm });
  }
  const processes: Process[] = [];
  for (const resolved of inventories) {
    const directory = join(root, resolved.name);
    await mkdir(directory);
    const whole = resolve(loadPreset(resolved.name), {});
    const kubeconfigs = await grant(controlPlane, { resolved: whole, namespace: resolved.name, directory });
    for (let machine = 0; machine < machines; machine += 1) {
      const certs = join(directory, `certs-${machine}`);
      const file = join(directory, `config-${machine}.yaml`);
      const config = {
        apiVersion: 'kube-cert-recovery/v1alpha1',
        kind: 'Configuration',
        modes: ['regen', 'syncer'],
        preset: resolved.name,
        regen: { kubeconfig: kubeconfigs.regen, clockSynchronised: true },
        syncer: { kubeconfig: kubeconfigs.syncer, destinationDir: certs },
      };
      await writeFile(file, toYaml(config));
      processes.push({ resolved, certs, start: (onLine) => new Tool([`--config=${file}`], onLine) });
    }
  }
  return {
    processes,
    rounds: Number(asked ?? 2),
    stops: 1,
    expire: async () => {
      const all = admins.map(({ store }, i) => ({ store, resolved: inventories[i] as Resolved }));
      const named = all.map((one) => ({ ...one, resolved: withNames(one.resolved, openshiftNames) }));
      const material = [...(await expireAll(named, { now: systemClock.now() })).values()];
      for (const { certs, resolved } of processes) {
        await publishMaterial(certs, resolved, material[inventories.indexOf(resolved)] ?? new Map());
      }
    },
    contents: ({ resolved }) => contentsInApi(controlPlane, resolved),
    watch: async () => {
      const history = await ObjectHistory.start(controlPlane, namespacesOf({ inventories }));
      return {
        close: async () => {
          await history.close();
          return [
            ...unlikeOnce({ inventories }, (place) => history.writes(place), processes.length),
            ...history.lostTrust(systemClock.now()),
          ];
        },
      };
    },
    async [Symbol.asyncDispose]() {
      for (const admin of admins) await admin[Symbol.asyncDispose]();
      await controlPlane[Symbol.asyncDispose]();
      await rm(root, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
