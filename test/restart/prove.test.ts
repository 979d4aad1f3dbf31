import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:tls';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../lib/clock.ts';
import { RecoveryError } from '../../lib/errors.ts';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { createLog } from '../../lib/log.ts';
import type { Component } from '../../lib/restart/component.ts';
import { proveRecovered, type ProvingOptions, waitForApi } from '../../lib/restart/prove.ts';
import { createLeaf, createAuthority, type Pair } from '../support/certificates.ts';
import { freePorts } from '../support/ports.ts';

let directory: string;
let serving: Pair;
let kubelet: Pair;
let server: Server;
let lines: string[] = [];
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'prove-'));
  const ca = await createAuthority(join(directory, 'ca'), { commonName: 'kubernetes' });
  serving = await createLeaf(join(directory, 'serving'), ca, { commonName: 'kube-apiserver' });
  kubelet = await createLeaf(join(directory, 'kubelet'), ca, {
    commonName: 'system:node:node1',
    organization: 'system:nodes',
  });
  server = createServer({ cert: readFileSync(serving.cert), key: readFileSync(serving.key) });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  server?.close();
  await rm(directory, { recursive: true, force: true });
});

/** Its time goes by in sleeps alone, so that a minute costs nothing. */
function quickClock(): Clock {
  let now = systemClock.now().getTime();
  return {
    now: () => new Date(now),
    uptimeSeconds: () => undefined,
    sleep: async (ms, signal) => {
      if (ms > 1000) return systemClock.sleep(ms, signal); // the limit of a handshake is real
      now += ms;
    },
  };
}

const artefact = (name: string, more: object): ResolvedArtefact =>
  ({ name, kind: 'target', ...more }) as ResolvedArtefact;

function options(more: Partial<ProvingOptions> = {}): ProvingOptions {
  lines = [];
  const { port } = server.address() as AddressInfo;
  const resolved: Resolved = {
    name: 'kubeadm',
    artefacts: [
      artefact('apiserver', {
        truth: { kind: 'pemPair', certFile: serving.cert, keyFile: serving.key },
        readers: [
          { component: 'kube-apiserver', needs: 'nothing', proof: { kind: 'served', serverName: 'kubernetes' } },
        ],
      }),
      artefact('kubelet.conf', {
        truth: { kind: 'kubeconfig', file: '/kubelet.conf', endpoint: 'local' },
        readers: [{ component: 'kubelet', needs: 'restart', proof: { kind: 'none' } }],
      }),
    ],
  };
  return {
    resolved,
    store: {
      read: async () => ({ version: '1', entries: { 'tls.crt': readFileSync(kubelet.cert) }, annotations: {} }),
    },
    apiServer: { host: '127.0.0.1', port },
    connect: async () => Promise.reject(new RecoveryError('KubeUnavailable', 'nobody is there')),
    hostName: 'host1',
    clock: quickClock(),
    log: createLog({ write: (line) => lines.push(line) }),
    signal: AbortSignal.timeout(30_000),
    ...more,
  };
}

const component: Component = {
  name: 'kubelet',
  kubeconfig: '/kubelet.conf',
  artefacts: ['kubelet.conf'],
  locations: [],
};

describe('proveRecovered()', () => {
  it('is content when what is on disk is served', async () => {
    expect(await proveRecovered([], options())).toEqual([]);
    expect(lines.join('')).toContain('"event":"proof.given"');
  });

  it('says after a minute what is not served', async () => {
    const [port = 0] = await freePorts(1);
    const given = options({ apiServer: { host: '127.0.0.1', port } });
    const began = given.clock.now().getTime();
    expect(await proveRecovered([], given)).toEqual([expect.stringMatching(/^kube-apiserver: No TLS answer for/)]);
    expect(given.clock.now().getTime() - began).toBeGreaterThanOrEqual(60_000);
    expect(lines.join('')).toContain('"event":"proof.missing"');
  });

  it('is not content with an identity that nobody accepts, and asks nothing of who was not restarted', async () => {
    const since = systemClock.now();
    expect(await proveRecovered([{ component, since }], options())).toEqual(['kubelet: nobody is there']);
    expect(await proveRecovered([{ component, since, failure: 'x' }], options())).toEqual([]);
  });
});

it('waitForApi() waits half a minute at most', async () => {
  const [port = 0] = await freePorts(1);
  const given = options({ apiServer: { host: '127.0.0.1', port } });
  const began = given.clock.now().getTime();
  await waitForApi(given);
  expect(given.clock.now().getTime() - began).toBeGreaterThanOrEqual(30_000);
  expect(given.clock.now().getTime() - began).toBeLessThan(40_000);
});
