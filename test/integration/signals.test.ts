// What a node says of itself beside its log, on a machine of the real kubeadm with a real API server: Events on its Node, the
// administrator's command, the lines of the journal.
import { chmod, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RunningMachine } from '../support/cluster/running-machine.ts';

let world: RunningMachine;
beforeAll(async () => {
  world = await RunningMachine.create('');
  world.startKubelet();
  await world.grant();
  await configure('30d');
  await writeFile(
    at('hook'),
    `#!/bin/sh\necho "$KUBE_CERT_RECOVERY_NODE: $KUBE_CERT_RECOVERY_RENEWED" >>${at('told')}\nexit "$(cat ${at('code')})"\n`,
  );
  await chmod(at('hook'), 0o755);
});
afterAll(() => world?.[Symbol.asyncDispose]());

const at = (name: string): string => join(world.machine.root, name);
const configure = (warnBefore: string): Promise<void> =>
  world.configure({ regen: { warnBefore, onRenewed: at('hook') } });

/** Loses a certificate: the next run makes it again. */
async function lose(name: string): Promise<void> {
  for (const end of ['crt', 'key']) await rm(world.machine.path(`pki/${name}.${end}`));
}

async function events(reason: string): Promise<readonly { readonly note: string; readonly type: string }[]> {
  const selector = `--field-selector=reason=${reason},regarding.kind=Node,regarding.name=node1`;
  const all = await world.asAdmin('get', 'events.events.k8s.io', '-n', 'default', '-o=json', selector);
  expect(all.code, all.stderr).toBe(0);
  return (JSON.parse(all.stdout) as { readonly items: readonly { note: string; type: string }[] }).items;
}

const told = async (): Promise<readonly string[]> =>
  (await readFile(at('told'), 'utf8').catch(() => '')).split('\n').filter(Boolean);

describe('a node that renews', () => {
  it('says so on its Node and to the command, when the API server is there and a kubelet waits no more', async () => {
    await writeFile(at('code'), '1');
    await lose('front-proxy-client');
    await world.stop('kube-apiserver');
    const early = await world.run();
    expect(early.code, early.stderr).toBe(0);
    expect(await told()).toEqual([]);
    const without = await world.run('--restart');
    expect(without.lines.map(({ event }) => event)).not.toContain('event.dropped');
    await world.startComponent('kube-apiserver');
    const late = await world.run('--restart');
    expect(late.code, world.explain()).toBe(0);
    expect(await events('CertificateUpdated')).toMatchObject([
      { type: 'Normal', note: 'renewed 1: front-proxy-client' },
    ]);
    expect(await told()).toEqual(['node1: front-proxy-client', 'node1: front-proxy-client']);
    await writeFile(at('code'), '0');
    await world.run('--restart');
    await world.run('--restart');
    expect(await told()).toHaveLength(3);
    expect(await events('CertificateUpdated')).toHaveLength(1);
  });

  it('warns once a day before certificates expire', async () => {
    expect(await events('CertificateExpirationWarning')).toEqual([]);
    await configure('400d');
    await world.run('--restart');
    await world.run('--restart');
    const [warning, ...more] = await events('CertificateExpirationWarning');
    expect(more).toEqual([]);
    expect(warning?.type).toBe('Warning');
    // All others are renewed before they expire.
    expect(warning?.note).toMatch(/^expire soon, or have expired: kubelet\.conf \(\d{4}-\d\d-\d\dT\d\d:\d\dZ\)$/);
  });

  it('is in the journal as lines with priorities, and silent when nothing has happened', async () => {
    await lose('apiserver-etcd-client');
    const command = ['--mode=regen', '--once', `--config=${world.config}`, '--restart'];
    const recovery = await world.runInJournal(...command);
    expect(recovery.code, recovery.stderr).toBe(0);
    const lines = recovery.stderr.trimEnd().split('\n');
    expect(lines.filter((line) => !/^<[345]>[a-z]+\.[a-zA-Z]+( |$)/.test(line))).toEqual([]);
    expect(
      lines.filter((line) => line.startsWith('<5>target.regenerated artefact=apiserver-etcd-client ')),
    ).toHaveLength(1);
    expect((await world.runInJournal(...command)).stderr).toBe('');
  });
});
