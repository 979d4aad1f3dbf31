// A worker whose CA has expired, or ends soon, beside a real API server whose CA was renewed with its own key; who else may
// offer one in its place, and what comes of that. Of the control plane of worker.test.ts.
import { X509Certificate } from 'node:crypto';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { dated } from '../support/certificates/dated.ts';
import { clusterInfoManifests } from '../support/cluster/cluster-info.ts';
import type { ControlPlane } from '../support/cluster/control-plane.ts';
import { keptEarlier } from '../support/cluster/kept-earlier.ts';
import type { Worker, WorkerFiles } from '../support/cluster/worker-machine.ts';

const hour = 3_600_000;

interface AuthorityStory {
  /** Once it is there. */
  readonly world: () => { readonly root: string; readonly controlPlane: ControlPlane };
  readonly create: (name: string, notAfter: Date, more?: Partial<WorkerFiles>) => Promise<Worker>;
  readonly approve: (worker: Worker) => Promise<unknown>;
  readonly cli: (...argv: readonly string[]) => Promise<{ exit: number; out: string; err: string }>;
}

export function authorityStory({ world, create, approve, cli }: AuthorityStory): void {
  describe('renew-worker, of a CA that was renewed with its own key', () => {
    let root: string;
    let controlPlane: ControlPlane;
    const days = (count: number): Date => new Date(Math.floor(Date.now() / 1000) * 1000 + count * 24 * hour);
    /** What the cluster has, and what it had before. */
    let present: string;
    let expired: string;
    let ending: string;
    /** By an attacker, of the same name, with the same key identifier. */
    let forged: Pair;
    const valid = new Date(Date.now() + hour);

    /** As kubeadm publishes it, with the same right for everybody. */
    const publish = (ca: string): Promise<string> =>
      controlPlane.apply(clusterInfoManifests(controlPlane.url, ca).join('---\n'));

    beforeAll(async () => {
      ({ root, controlPlane } = world());
      const { cert, key } = controlPlane.pki.clusterCa;
      present = await readFile(cert, 'utf8');
      const keyPem = await readFile(key, 'utf8');
      expired = dated(present, keyPem, days(-3650), days(-1));
      ending = dated(present, keyPem, days(-3650), days(100));
      forged = await createAuthority(join(root, 'forged'), { commonName: 'test-cluster-ca', notAfter: days(3650) });
    });

    const filesOf = (worker: Worker): Promise<string[]> =>
      Promise.all([worker.conf, worker.clientAuthority, worker.link].map((file) => readFile(file, 'utf8')));

    /** How it ends for a worker whose CA has expired, of which nothing is written. */
    async function refused(worker: Worker): Promise<string> {
      const before = await filesOf(worker);
      const tool = worker.start('--wait=1s');
      expect(await tool.ended).toBe(1);
      expect(await filesOf(worker)).toEqual(before);
      expect(await readdir(worker.root)).not.toContain('backups');
      expect(worker.lines.map(({ event }) => event)).not.toContain('authority.updated');
      return String(tool.lines.at(-1)?.fields['err']);
    }

    it('says that nothing is published, while there is nothing', async () => {
      const worker = await create('early', valid, { authority: expired });
      expect(await refused(worker)).toMatch(
        /^kubelet\.conf: a CA in it expired at \S+; nothing was offered, .* 40[34] /,
      );
    });

    it('waits while the cluster itself has the expired one', async () => {
      await publish(expired);
      const worker = await create('patient', valid, { authority: expired });
      expect(await refused(worker)).toContain('still has the CA that is here');
    });

    it('refuses what an attacker has written into cluster-info, and names it', async () => {
      await publish(await readFile(forged.cert, 'utf8'));
      const worker = await create('cheated', valid, { authority: expired });
      const reason = await refused(worker);
      const { fingerprint256 } = new X509Certificate(await readFile(forged.cert));
      expect(reason).toContain(`what ConfigMap "kube-public/cluster-info" of ${controlPlane.url} offers is refused`);
      expect(reason).toContain(`sha256 ${fingerprint256.replaceAll(':', '').toLowerCase().slice(0, 16)}`);
      expect(reason).toContain('its key is another one');
    });

    it('takes the right one, and no other, from among several', async () => {
      await publish((await readFile(forged.cert, 'utf8')) + present);
      const worker = await create('crowded', valid, { authority: expired });
      const { exit, err } = await cli('renew-worker', ...worker.flags, '--wait=0s');
      expect(exit, err).toBe(0);
      expect(await worker.trust()).toBe(present);
    });

    it('takes it although the client certificate is damaged, and the other file of CAs cannot be read', async () => {
      await publish(present);
      const worker = await create('damaged', valid, { authority: expired });
      await writeFile(worker.link, '');
      await rm(worker.clientAuthority);
      await mkdir(worker.clientAuthority);
      const { exit, err } = await cli('renew-worker', ...worker.flags, '--wait=0s');
      expect(exit, err).not.toBe(0);
      expect(await worker.trust()).toBe(present);
    });

    it('asks nobody where kubelet.conf holds no certificate', async () => {
      await publish(present);
      const worker = await create('empty', valid, { authority: 'none\n' });
      await writeFile(worker.clientAuthority, expired);
      const { exit, err } = await cli('renew-worker', ...worker.flags, '--wait=0s');
      expect(err).not.toContain('Cannot read properties');
      expect(exit, err).toBe(0);
      expect(await readFile(worker.clientAuthority, 'utf8')).toBe(expired);
    });

    it('sends nothing to another server that says it is the API server, by a CA of the same name', async () => {
      await publish(present);
      const names = { commonName: 'kube-apiserver', ipAddresses: ['127.0.0.1'], usages: ['serverAuth'] } as const;
      const serving = await createLeaf(join(root, 'forged-leaf'), forged, names);
      const told: string[] = [];
      const cert = (await readFile(serving.cert, 'utf8')) + (await readFile(forged.cert, 'utf8'));
      const attacker = createServer({ cert, key: await readFile(serving.key) }, ({ url = '' }, answer) => {
        told.push(url);
        answer.end();
      });
      let bytes = 0;
      attacker.on('secureConnection', (socket) => socket.on('data', (data: Buffer) => (bytes += data.length)));
      await new Promise<void>((resolve) => attacker.listen(0, '127.0.0.1', resolve));
      try {
        const { port } = attacker.address() as AddressInfo;
        const worker = await create('lured', days(-1), { authority: expired, server: `https://127.0.0.1:${port}` });
        expect(await refused(worker)).toMatch(
          /not one of the CA that is known here, by its key: .* was not signed by the key of the trusted certificate/,
        );
        expect({ told, bytes }).toEqual({ told: [], bytes: 0 });
      } finally {
        attacker.closeAllConnections();
        attacker.close();
      }
    });

    it('says with --dry-run that it would, and asks nobody', async () => {
      const worker = await create('curious', valid, { authority: expired, server: 'https://127.0.0.1:1' });
      const { exit, err } = await cli('renew-worker', ...worker.flags, '--dry-run');
      expect(exit, err).toBe(0);
      expect(err).toContain('a later one is asked for');
      expect(await worker.trust()).toBe(expired);
    });

    it('takes it over, and asks for a client certificate with it: nothing was valid before', async () => {
      const worker = await create('phoenix', new Date(Date.now() - hour), { authority: expired });
      const before = JSON.parse(await readFile(worker.conf, 'utf8')) as { clusters: { cluster: object }[] };
      const tool = worker.start();
      await approve(worker);
      expect(await tool.ended).toBe(0);
      expect(await readFile(worker.clientAuthority, 'utf8')).toBe(present);
      expect(await worker.trust()).toBe(present);
      const after = JSON.parse(await readFile(worker.conf, 'utf8')) as typeof before;
      expect(after.clusters[0]?.cluster).toMatchObject({ server: controlPlane.url });
      for (const { clusters } of [before, after]) clusters.length = 0;
      expect(after).toEqual(before);
      for (const [file, mode] of [
        [worker.conf, 0o600],
        [worker.clientAuthority, 0o644],
      ] as const) {
        expect((await stat(file)).mode & 0o777).toBe(mode);
      }
      expect(await readdir(join(worker.root, 'backups'))).toHaveLength(3);
      const present509 = new X509Certificate(await worker.pem());
      expect(present509.validToDate.getTime()).toBeGreaterThan(Date.now());
      const events = ['authority.updated', 'authority.updated', 'csr.requested', 'target.regenerated'];
      expect(worker.deeds).toEqual(events);
      expect(await worker.start().ended).toBe(0);
      expect(worker.deeds).toHaveLength(events.length);
    });

    it('takes it over before the former ends, without the token, and asks once an hour', async () => {
      await publish(ending);
      const worker = await create('early-bird', valid, { authority: ending });
      await rm(join(worker.root, 'token'));
      expect(await worker.start().ended).toBe(0);
      await publish(present);
      expect(await worker.start().ended).toBe(0);
      expect(await worker.trust()).toBe(ending);
      expect(worker.deeds).toEqual([]);
      await keptEarlier(join(worker.root, 'lock/asked-kubelet.conf'), hour);
      expect(await worker.start().ended).toBe(0);
      expect([await worker.trust(), await readFile(worker.clientAuthority, 'utf8')]).toEqual([present, present]);
    });

    it('only tells of a forged one while the CA is valid', async () => {
      await publish(await readFile(forged.cert, 'utf8'));
      const worker = await create('calm', valid, { authority: ending });
      expect(await worker.start().ended).toBe(0);
      expect(worker.deeds).toEqual(['authority.refused']);
      expect(await worker.trust()).toBe(ending);
    });

    it('finishes what a run has left that ended between its two files, without an API server', async () => {
      const worker = await create('halved', valid, { authority: present, server: 'https://127.0.0.1:1' });
      await writeFile(worker.clientAuthority, expired);
      expect(await worker.start().ended).toBe(0);
      expect(await readFile(worker.clientAuthority, 'utf8')).toBe(present);
    });

    it('is kept from nothing by another CA that has expired beside a valid one', async () => {
      await publish(present);
      const former = dated(
        await readFile(forged.cert, 'utf8'),
        await readFile(forged.key, 'utf8'),
        days(-3650),
        days(-1),
      );
      const worker = await create('rotated', valid, { authority: present });
      await writeFile(worker.clientAuthority, present + former);
      const tool = worker.start('--wait=1s');
      const code = await tool.ended;
      expect(code, JSON.stringify(tool.lines)).toBe(0);
      expect(worker.deeds).toEqual([]);
      expect(await readFile(worker.clientAuthority, 'utf8')).toBe(present + former);
    });

    it('follows files that kubelet.conf and the configuration of the kubelet name', async () => {
      await publish(present);
      const worker = await create('named', valid, { authority: expired });
      const [trusted, clients] = [join(worker.root, 'trusted.crt'), join(worker.root, 'clients.crt')];
      const conf = JSON.parse(await readFile(worker.conf, 'utf8')) as {
        clusters: [{ cluster: Record<string, unknown> }];
      };
      conf.clusters[0].cluster = { server: controlPlane.url, 'certificate-authority': trusted };
      await writeFile(worker.conf, JSON.stringify(conf));
      for (const file of [trusted, clients]) await writeFile(file, expired);
      const kubelet = { kind: 'KubeletConfiguration', authentication: { x509: { clientCAFile: clients } } };
      await writeFile(join(worker.root, 'config.yaml'), JSON.stringify(kubelet));
      expect(await worker.start().ended).toBe(0);
      const contents = [trusted, clients, worker.clientAuthority].map((file) => readFile(file, 'utf8'));
      expect(await Promise.all(contents)).toEqual([present, present, expired]);
    });
  });
}
