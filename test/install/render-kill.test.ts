// `init render` under kill -9: whatever was made once stays, and the next run completes it.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const child = fileURLToPath(new URL('../support/faults/render-child.ts', import.meta.url));
let directory: string;
beforeEach(() => void (directory = mkdtempSync(join(tmpdir(), 'render-kill-'))));
afterEach(() => rmSync(directory, { recursive: true }));

/** Kills the run `ms` after it has begun; whether it was still running. */
async function renderKilledAfter(ms: number): Promise<boolean> {
  const running = spawn(process.execPath, [child, directory], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(running, 'exit');
  await once(running.stdout, 'data');
  await delay(ms);
  running.kill('SIGKILL');
  const [, signal] = (await ended) as [number | null, string | null];
  return signal === 'SIGKILL';
}

/** Staged objects and files of etcd, by path; temporary names of killed runs left out. */
function made(): Map<string, string> {
  const files = ['out/staging', 'pki', 'pki/etcd'].flatMap((part) => {
    const at = join(directory, part);
    const names = existsSync(at) ? readdirSync(at) : [];
    return names.filter((name) => /^[^.].*\.(json|crt|key)$/.test(name)).map((name) => join(at, name));
  });
  return new Map(files.map((file) => [file, readFileSync(file, 'utf8')]));
}

describe('runRender() under kill -9', () => {
  it('never changes what was made, and the next run completes it', async () => {
    let before = new Map<string, string>();
    let killed = 0;
    for (let run = 0; run < 12; run += 1) {
      // each run gets a little further than the one before
      if (await renderKilledAfter(run * 12 + Math.random() * 20)) killed += 1;
      const now = made();
      for (const [file, content] of before) expect(now.get(file), file).toBe(content);
      before = now;
    }
    expect(killed).toBeGreaterThan(2);
    execFileSync(process.execPath, [child, directory]);
    const end = made();
    for (const [file, content] of before) expect(end.get(file), file).toBe(content);
    expect(existsSync(join(directory, 'out', 'generation.json'))).toBe(true);
    expect(end.size).toBeGreaterThan(30);
    const verify = (ca: string, ...leaf: string[]): string =>
      execFileSync('openssl', ['verify', '-CAfile', join(directory, ca), ...leaf.map((one) => join(directory, one))], {
        encoding: 'utf8',
      });
    const certs = 'out/certs/secrets';
    const clients = ['admin-client', 'kubelet-client', 'kube-scheduler-client'].map(
      (name) => `${certs}/${name}/tls.crt`,
    );
    expect(verify('out/certs/configmaps/client-ca/ca-bundle.crt', ...clients).match(/OK/g)).toHaveLength(3);
    const etcd = ['pki/etcd/server.crt', 'pki/etcd/peer.crt', 'pki/apiserver-etcd-client.crt'];
    expect(verify('pki/etcd/ca-bundle.crt', ...etcd).match(/OK/g)).toHaveLength(3);
  }, 600_000);
});
