import { X509Certificate } from 'node:crypto';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import type { Location } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import type { Found, Store } from '../../lib/store/store.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';
import { expire } from '../support/cluster/expire.ts';
import { startFaultProxy } from '../support/faults/fault-proxy.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';
import { Actor, Generations, apiRows, artefact, namespace, slice } from './regen-world.ts';
import { caBundleKey, certificateKey, privateKeyKey } from '../../lib/inventory/content.ts';

const run = promisify(execFile);
const { signal } = new AbortController();

let scratch: string;
let serving: string;
let controlPlane: ControlPlane;

/** What the syncer does, in the plainest form: each file complete before it takes its name. */
async function publish(actor: Actor): Promise<void> {
  const found = await actor.store.read(artefact(slice, 'serving').location, signal);
  for (const key of [privateKeyKey, certificateKey]) {
    await writeFile(join(serving, `new-${key}`), found?.entries[key] ?? '');
    await rename(join(serving, `new-${key}`), join(serving, key));
  }
}

/** The certificate that the API server shows for `localhost`, whatever it is worth. */
function served(): Promise<X509Certificate> {
  return new Promise((done, reject) => {
    const options = { host: '127.0.0.1', port: controlPlane.port, servername: 'localhost', rejectUnauthorized: false };
    const socket = connect(options, () => {
      const certificate = socket.getPeerX509Certificate();
      socket.destroy();
      if (certificate === undefined) reject(new Error('no certificate'));
      else done(certificate);
    });
    socket.on('error', reject);
  });
}

async function bytes(actor: Actor, name: string, key: string): Promise<string> {
  const found = await actor.store.read(artefact(slice, name).location, signal);
  return Buffer.from(found?.entries[key] ?? []).toString();
}

const ours = ({ kind }: { kind: string }): boolean => kind !== 'keyPair' && kind !== 'opaque';
const isRecovery = ({ name }: { name: string }): boolean => name.startsWith('localhost-recovery');

const serial = async (actor: Actor): Promise<string> =>
  new X509Certificate(await bytes(actor, 'serving', certificateKey)).serialNumber;

const isLeaf = (location: Location): boolean => 'name' in location && location.name === 'serving';

async function marker(): Promise<string> {
  const name = `marker-${systemClock.now().getTime()}`;
  await controlPlane.kubectl('-n', namespace, 'create', 'secret', 'generic', name);
  return name;
}

beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'regen-'));
  serving = join(scratch, 'serving');
  await mkdir(serving);
  controlPlane = await startControlPlane({ start: false });
  const flags = {
    'tls-cert-file': join(serving, certificateKey),
    'tls-private-key-file': join(serving, privateKeyKey),
  };
  // The library's own pair first; the tests put their own in its place.
  for (const [key, file] of Object.entries({
    [certificateKey]: controlPlane.pki.serving.cert,
    [privateKeyKey]: controlPlane.pki.serving.key,
  })) {
    await run('cp', [file, join(serving, key)]);
  }
  const { directory } = controlPlane;
  controlPlane = await startControlPlane({ directory, flags: { 'kube-apiserver': flags } });
  await controlPlane.kubectl('create', 'namespace', namespace);
});

afterAll(async () => {
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(controlPlane?.directory ?? scratch, { recursive: true, force: true });
  await rm(scratch, { recursive: true, force: true });
});

describe('runRegen() with objects in the API', () => {
  beforeEach(async () => {
    await controlPlane.kubectl('-n', namespace, 'delete', 'secrets,configmaps', '--all');
  });

  it('makes what is absent, and a second look writes nothing', async () => {
    await using actor = await Actor.start(controlPlane, slice);
    expect(await actor.run()).toMatchObject({ converged: true, writes: 3 });
    const generations = await Generations.start(actor);
    expect(await actor.run()).toMatchObject({ converged: true, writes: 0 });
    expect([...(await generations.stop(marker)).keys()]).toEqual([]);
  });

  it('writes the annotations in step with the certificate', async () => {
    await using actor = await Actor.start(controlPlane, slice);
    await actor.run();
    const found = await actor.store.read(artefact(slice, 'serving').location, signal);
    const certificate = new X509Certificate(await bytes(actor, 'serving', certificateKey));
    expect(found?.annotations).toMatchObject({
      'auth.openshift.io/certificate-not-after': certificate.validToDate.toISOString().replace('.000', ''),
      'auth.openshift.io/certificate-issuer': expect.stringMatching(/^regen-test_serving-signer@\d+$/) as string,
      'auth.openshift.io/certificate-hostnames': '127.0.0.1,kubernetes,localhost',
    });
  });

  it('leaves an expired object to its own rotator for the time of grace', async () => {
    await using actor = await Actor.start(controlPlane, slice);
    await actor.run();
    await expire({ resolved: slice, store: actor.store, now: systemClock.now(), agoMs: 5000 });
    const report = await actor.run();
    expect(report).toMatchObject({ converged: true, writes: 0 });
    expect(report.artefacts[0]).toMatchObject({ action: 'keep', reason: 'InGrace' });
  });

  it('gives each artefact exactly one new generation when three race', async () => {
    await using first = await Actor.start(controlPlane, slice);
    await using second = await Actor.start(controlPlane, slice);
    await using third = await Actor.start(controlPlane, slice);
    const actors = [first, second, third];
    await first.run();
    for (let round = 0; round < 5; round += 1) {
      await expire({ resolved: slice, store: first.store, now: systemClock.now() });
      const generations = await Generations.start(first);
      const reports = await Promise.all(actors.map((actor) => actor.run()));
      expect(reports.map(({ converged }) => converged)).toEqual([true, true, true]);
      const seen = await generations.stop(marker);
      expect(Object.fromEntries([...seen].map(([name, versions]) => [name, versions.length]))).toEqual({
        'serving-signer': 1,
        'serving-ca': 1,
        serving: 1,
      });
      expect(reports.reduce((sum, { writes }) => sum + writes, 0)).toBe(3);
    }
  });

  it('that is stopped after the signer was written is finished by the next run', async () => {
    await using actor = await Actor.start(controlPlane, slice);
    await actor.run();
    await expire({ resolved: slice, store: actor.store, now: systemClock.now() });
    const stop = new AbortController();
    const store: Store = {
      read: (...args) => actor.store.read(...args),
      write: async (...args) => {
        const outcome = await actor.store.write(...args);
        stop.abort();
        return outcome;
      },
    };
    expect(await actor.run({ store, signal: stop.signal })).toMatchObject({ converged: false, writes: 1 });
    const signer = await bytes(actor, 'serving-signer', certificateKey);
    await using next = await Actor.start(controlPlane, slice);
    expect(await next.run()).toMatchObject({ converged: true, writes: 2 });
    expect(await bytes(next, 'serving-signer', certificateKey)).toBe(signer);
    expect(next.events('signer.regenerated')).toEqual([]);
    await writeFile(join(scratch, 'ca.crt'), await bytes(next, 'serving-ca', caBundleKey));
    await writeFile(join(scratch, 'leaf.crt'), await bytes(next, 'serving', certificateKey));
    const verified = await run('openssl', ['verify', '-CAfile', join(scratch, 'ca.crt'), join(scratch, 'leaf.crt')]);
    expect(verified.stdout).toContain('OK');
  });

  it('finishes at once what its own failure has left half done, however long others are given to settle', async () => {
    await using actor = await Actor.start(controlPlane, slice);
    await actor.run();
    await expire({ resolved: slice, store: actor.store, now: systemClock.now() });
    let failed = false;
    const store: Store = {
      read: (...args) => actor.store.read(...args),
      write: (location, ...rest) => {
        if (location.kind !== 'configMap' || failed) return actor.store.write(location, ...rest);
        failed = true;
        return Promise.reject(new Error('lost'));
      },
    };
    const policy = { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 3_600_000 } as const;
    expect(await actor.run({ store, policy })).toMatchObject({ converged: true, writes: 3 });
    expect(actor.events('rotation.failed')).toEqual(['serving-ca']);
  });

  it('finishes at once what was written although its answer was lost', async () => {
    await using actor = await Actor.start(controlPlane, slice);
    await actor.run();
    await expire({ resolved: slice, store: actor.store, now: systemClock.now() });
    let lost = false;
    const store: Store = {
      read: (...args) => actor.store.read(...args),
      write: async (...args) => {
        const outcome = await actor.store.write(...args);
        if (lost) return outcome;
        lost = true;
        throw new Error('the answer was lost');
      },
    };
    const policy = { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 3_600_000 } as const;
    expect(await actor.run({ store, policy })).toMatchObject({ converged: true, writes: 2 });
  });

  it('does not write over the leaf of another rotator that is read new beside a signer and a bundle that are not', async () => {
    await using actor = await Actor.start(controlPlane, slice);
    await using rotator = await Actor.start(controlPlane, slice);
    await actor.run();
    await expire({ resolved: slice, store: actor.store, now: systemClock.now() });
    // Our own last step fails; the other makes a whole generation; of our next reads, two are answered before and one after.
    const former = new Map<Location, Found | undefined>();
    const store: Store = {
      read: async (location, ...rest) => {
        const found = former.get(location);
        former.delete(location);
        return found ?? actor.store.read(location, ...rest);
      },
      write: async (location, ...rest) => {
        if (!isLeaf(location)) return actor.store.write(location, ...rest);
        for (const other of slice.artefacts.filter((one) => !isLeaf(one.location))) {
          former.set(other.location, await actor.store.read(other.location, signal));
        }
        await expire({ resolved: slice, store: rotator.store, now: systemClock.now() });
        await rotator.run();
        throw new Error('lost');
      },
    };
    expect(await actor.run({ store })).toMatchObject({ converged: true, writes: 2 });
    expect(actor.events('rotation.failed')).toEqual(['serving']);
    expect(actor.events('target.regenerated')).toEqual(['serving']); // when all began
    expect(former.size).toBe(0);
  });

  it('looks again after a conflict and does not repeat its write', async () => {
    await using actor = await Actor.start(controlPlane, slice);
    await actor.run();
    await expire({ resolved: slice, store: actor.store, now: systemClock.now() });
    const path = `/api/v1/namespaces/${namespace}/secrets/serving-signer`;
    let touched = false;
    const store: Store = {
      read: (...args) => actor.store.read(...args),
      write: async (...args) => {
        // Not metadata alone: by its bytes another has written it.
        if (!touched) {
          const { data } = (await controlPlane.admin(path)).body as { data: Record<string, string> };
          const certificate = `${Buffer.from(data['tls.crt'] ?? '', 'base64').toString()}\n`;
          const body = {
            metadata: { labels: { l: 'x' } },
            data: { 'tls.crt': Buffer.from(certificate).toString('base64') },
          };
          await controlPlane.admin(path, { method: 'PATCH', body });
        }
        touched = true;
        return actor.store.write(...args);
      },
    };
    expect(await actor.run({ store })).toMatchObject({ converged: true, writes: 3 });
    expect(actor.events('publish.conflicted')).toEqual(['serving-signer']);
    const { body } = await controlPlane.admin(path);
    expect(body).toMatchObject({ metadata: { labels: { l: 'x' } } });
  });
});

describe('runRegen() when the answer to a write is lost', () => {
  it('looks what became of it and does not write it again', async () => {
    const target = { port: controlPlane.port, caFile: controlPlane.recoveryCa, serverName: 'localhost-recovery' };
    await using proxy = await startFaultProxy({ target });
    await using direct = await Actor.start(controlPlane, slice);
    await direct.run();
    await expire({ resolved: slice, store: direct.store, now: systemClock.now() });
    const kubeconfig = await writeKubeconfig(join(scratch, 'proxy.kubeconfig'), {
      server: proxy.url,
      certificateAuthority: proxy.ca,
      tlsServerName: 'localhost-recovery',
      token: controlPlane.adminToken,
    });
    await using actor = await Actor.start({ recoveryKubeconfig: kubeconfig }, slice);
    await proxy.inject({ kind: 'loseAnswer', times: 1, match: ({ method }) => method === 'PUT' });
    const generations = await Generations.start(direct);
    expect(await actor.run()).toMatchObject({ converged: true });
    const seen = await generations.stop(marker);
    expect(Object.fromEntries([...seen].map(([name, versions]) => [name, versions.length]))).toEqual({
      'serving-signer': 1,
      'serving-ca': 1,
      serving: 1,
    });
    expect(actor.events('rotation.failed')).toEqual(['serving-signer']);
  });
});

describe('runRegen() beside an API server that is switched on', () => {
  it('waits for it, heals everything, and the new certificate is served', async () => {
    await using before = await Actor.start(controlPlane, slice);
    await before.run();
    await expire({ resolved: slice, store: before.store, now: systemClock.now() });
    await publish(before);
    const old = await serial(before);
    await controlPlane.kill();

    await using actor = await Actor.start(controlPlane, slice);
    const began = Date.now();
    const recovery = actor.run();
    await eventually(() => expect(actor.lines.map(({ event }) => event)).toContain('api.waiting'));
    await controlPlane.start();
    const expired = await served();
    expect(expired.serialNumber).toBe(old);
    expect(expired.validToDate.getTime()).toBeLessThan(systemClock.now().getTime());

    const { converged, writes } = await recovery;
    expect({ converged, writes }).toEqual({ converged: true, writes: 3 });
    const events = actor.lines.map(({ event }) => event);
    expect(events.indexOf('api.answered')).toBeLessThan(events.indexOf('signer.regenerated'));
    await publish(actor);
    const fresh = await serial(actor);
    await eventually(async () => expect((await served()).serialNumber).toBe(fresh));
    expect((await served()).validToDate.getTime()).toBeGreaterThan(systemClock.now().getTime());
    // Once in ten seconds.
    const waited = actor.lines.filter(({ event }) => event === 'api.waiting').length;
    expect(waited).toBeLessThanOrEqual(2 + (Date.now() - began) / 10_000);
  });
});

describe('runRegen() with the preset kubernetes', () => {
  it('makes every object, and heals them all within a second when all but the recovery certificate have expired', async () => {
    const preset = loadPreset('kubernetes', { namespace });
    const resolved = apiRows(resolve(preset, { parameters: { apiServerHostnames: ['api.example.org'] } }));
    await controlPlane.kubectl('-n', namespace, 'delete', 'secrets,configmaps', '--all');
    await using actor = await Actor.start(controlPlane, resolved);
    const made = await actor.run();
    expect(made.artefacts.filter(({ action, reason }) => action !== 'keep' && reason !== 'NotOurs')).toEqual([]);

    const managed = { ...resolved, artefacts: resolved.artefacts.filter(ours) };
    await expire({ resolved: managed, store: actor.store, now: systemClock.now(), except: isRecovery });
    const expected = managed.artefacts.filter((row) => !isRecovery(row)).map(({ name }) => name);
    // Keys are made while the API server starts: here, while it is away.
    await controlPlane.stopComponent('kube-apiserver');
    await using recoverer = await Actor.start(controlPlane, resolved);
    const recovery = recoverer.run();
    controlPlane.startComponent('kube-apiserver');
    const report = await recovery;
    const healed = report.artefacts.filter(({ writes }) => writes > 0).map(({ artefact: name }) => name);
    expect(healed.toSorted()).toEqual(expected.toSorted());
    expect(report.artefacts.every(({ writes }) => writes <= 1)).toBe(true);
    const took = Number(recoverer.lines.find(({ event }) => event === 'recovery.finished')?.['duration']);
    console.log(`recovery of ${report.writes} objects: ${took} ms from the first answer`);
    expect(took).toBeGreaterThan(0); // the goal, 1 s, is the benchmark's
  });
});
