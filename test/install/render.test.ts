import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, unlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import type { Resolved } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { type RenderOutcome, runRender } from '../../lib/install/render.ts';

let directory: string;
let resolved: Resolved;
const signal = new AbortController().signal;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'render-'));
  resolved = resolve(loadPreset('kubernetes'), {
    parameters: { apiServerHostnames: ['api.example.com', '192.0.2.1'] },
    directories: { pkiDir: join(directory, 'pki') },
  });
});
afterEach(() => rmSync(directory, { recursive: true }));

const render = (more: Partial<Parameters<typeof runRender>[0]> = {}): Promise<RenderOutcome> =>
  runRender({
    resolved,
    directory: join(directory, 'out'),
    keyAlgorithm: { name: 'ECDSA', curve: 'P-256' },
    clock: systemClock,
    signal,
    ...more,
  });

const at = (...parts: string[]): string => join(directory, 'out', ...parts);
const secret = (name: string, key: string): string => at('certs', 'secrets', name, key);
const bundle = (name: string): string => at('certs', 'configmaps', name, 'ca-bundle.crt');

/** Every file below a directory, with its content and mode; links followed. */
function tree(root: string): Record<string, string> {
  if (!existsSync(root)) return {};
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((name) => statSync(join(root, name)).isFile())
    .toSorted()
    .map((name) => [
      name,
      `${statSync(join(root, name)).mode.toString(8)} ${readFileSync(join(root, name), 'latin1')}`,
    ]);
  return Object.fromEntries(files) as Record<string, string>;
}

function openssl(...args: string[]): string {
  return execFileSync('openssl', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

interface Leaf {
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
  readonly purpose: 'sslserver' | 'sslclient';
  readonly hostnames?: readonly string[];
}

const pair = (name: string) => ({ cert: secret(name, 'tls.crt'), key: secret(name, 'tls.key') });
const etcd = (name: string) => ({
  cert: join(directory, 'pki', `${name}.crt`),
  key: join(directory, 'pki', `${name}.key`),
  ca: join(directory, 'pki', 'etcd', 'ca-bundle.crt'),
});
const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8);

function leaves(): Record<string, Leaf> {
  const server = { ca: bundle('kube-apiserver-server-ca'), purpose: 'sslserver' } as const;
  const client = { ca: bundle('client-ca'), purpose: 'sslclient' } as const;
  return {
    serving: { ...pair('kube-apiserver-serving'), ...server, hostnames: ['api.example.com', 'kubernetes.default.svc'] },
    localhost: { ...pair('localhost-serving'), ...server, hostnames: ['localhost'] },
    recovery: { ...pair('localhost-recovery-serving'), ...server, hostnames: ['localhost-recovery'] },
    kubelet: { ...pair('kubelet-client'), ...client },
    kcm: { ...pair('kube-controller-manager-client'), ...client },
    scheduler: { ...pair('kube-scheduler-client'), ...client },
    admin: { ...pair('admin-client'), ...client },
    aggregator: { ...pair('aggregator-client'), ca: bundle('aggregator-client-ca'), purpose: 'sslclient' },
    'etcd server': { ...etcd('etcd/server'), purpose: 'sslserver', hostnames: ['localhost'] },
    'etcd peer': { ...etcd('etcd/peer'), purpose: 'sslclient' },
    'etcd client': { ...etcd('apiserver-etcd-client'), purpose: 'sslclient' },
  };
}

describe('runRender()', () => {
  it('makes leaves that openssl verifies against the bundles their readers use', async () => {
    await render();
    for (const [name, { cert, key, ca, purpose, hostnames = [] }] of Object.entries(leaves())) {
      const hosts = hostnames.length === 0 ? [undefined] : hostnames;
      for (const host of hosts) {
        const check = host === undefined ? [] : ['-verify_hostname', host];
        const answer = openssl('verify', '-x509_strict', '-purpose', purpose, ...check, '-CAfile', ca, cert);
        expect(answer, name).toContain('OK');
      }
      const publicKey = openssl('x509', '-in', cert, '-noout', '-pubkey');
      expect(openssl('pkey', '-in', key, '-pubout'), name).toBe(publicKey);
    }
  });

  it('gives every artefact the file mode that its content needs', async () => {
    await render();
    expect(mode(at('staging'))).toBe('700');
    for (const name of readdirSync(at('staging'))) expect(mode(at('staging', name)), name).toBe('600');
    for (const { cert, key } of Object.values(leaves())) expect(mode(key), cert).toBe('600');
    expect(mode(bundle('client-ca'))).toBe('644');
    expect(mode(at('kubeconfigs', 'admin.kubeconfig'))).toBe('600');
  });

  it('publishes no key of a signer but the one that kube-controller-manager signs with', async () => {
    await render();
    expect(readdirSync(at('certs', 'secrets')).filter((name) => name.includes('signer'))).toEqual(['csr-signer']);
  });

  it('names files that exist in every flag', async () => {
    const { flags } = await render();
    expect(Object.keys(flags).toSorted()).toEqual([
      'etcd',
      'kube-apiserver',
      'kube-controller-manager',
      'kube-scheduler',
    ]);
    const paths = Object.values(flags)
      .flatMap((own) => Object.values(own).flat())
      .flatMap((value) => value.split(/[,:]/))
      .filter((value) => value.startsWith('/'));
    expect(paths.length).toBeGreaterThan(30);
    for (const path of paths) expect(existsSync(path), path).toBe(true);
    expect(flags['kube-apiserver']?.['requestheader-allowed-names']).toBe('front-proxy-client');
    expect(flags['kube-apiserver']?.['tls-sni-cert-key']).toHaveLength(2);
  });

  it('changes nothing the second time, with and without the staging directory', async () => {
    const first = await render();
    const before = tree(directory);
    const second = await render();
    expect(second.written).toEqual([]);
    expect(second.flags).toEqual(first.flags);
    rmSync(at('staging'), { recursive: true });
    expect((await render()).written).toEqual([]);
    const kept = Object.entries(before).filter(([name]) => !name.startsWith('out/staging'));
    expect(tree(directory)).toEqual(Object.fromEntries(kept));
  });

  it('writes nothing with dryRun, and says what it would write', async () => {
    const outcome = await render({ dryRun: true });
    expect(tree(directory)).toEqual({});
    expect(outcome.written).toContain('Secret "kube-cert-recovery/kube-apiserver-serving-signer"');
    expect(outcome.written).toContain(at('generation.json'));
  });

  it('refuses a directory with certificates that it did not render', async () => {
    await render();
    rmSync(at('staging'), { recursive: true });
    unlinkSync(at('generation.json'));
    await expect(render()).rejects.toThrow('holds another one; choose an empty directory');
  });

  it('refuses to go on with an existing etcd certificate of another CA', async () => {
    await render();
    for (const path of ['out', 'pki/etcd/ca.crt', 'pki/etcd/ca.key', 'pki/etcd/ca-bundle.crt']) {
      rmSync(join(directory, path), { recursive: true });
    }
    await expect(render()).rejects.toThrow(/Cannot complete the generation with the existing pair ".*server.crt"/);
  });

  it("makes etcd's files again when they were lost after the first generation was complete, and nothing else", async () => {
    await render();
    rmSync(at('staging'), { recursive: true }); // as `init` does
    const before = tree(at('certs'));
    rmSync(join(directory, 'pki', 'etcd'), { recursive: true });
    await expect(render()).rejects.toThrow(/Cannot complete the generation with the existing pair ".*client.crt"/);
    for (const half of ['crt', 'key']) rmSync(join(directory, 'pki', `apiserver-etcd-client.${half}`));
    rmSync(join(directory, 'pki', 'etcd'), { recursive: true });
    await render();
    expect(tree(at('certs'))).toEqual(before);
    expect(existsSync(at('staging'))).toBe(false);
    const place = join(directory, 'pki', 'etcd');
    expect(openssl('verify', '-CAfile', join(place, 'ca-bundle.crt'), join(place, 'server.crt'))).toContain('OK');
  });

  it('completes what a killed run began, and keeps what was made', async () => {
    await render();
    const staged = readdirSync(at('staging'));
    const signer = readFileSync(at('staging', 'secret.kube-cert-recovery.csr-signer.json'), 'utf8');
    // what lies there when the run dies before the client certificates of the control plane are made
    const lost = staged.filter((name) => name.includes('client.json') || name.includes('client-ca.json'));
    for (const name of lost) unlinkSync(at('staging', name));
    for (const path of [at('certs'), at('kubeconfigs'), at('generation.json')]) rmSync(path, { recursive: true });
    unlinkSync(join(directory, 'pki', 'etcd', 'peer.crt')); // between the two renames: the key is there already
    const key = readFileSync(join(directory, 'pki', 'etcd', 'peer.key'), 'utf8');
    await render();
    expect(readdirSync(at('staging'))).toEqual(staged);
    expect(readFileSync(at('staging', 'secret.kube-cert-recovery.csr-signer.json'), 'utf8')).toBe(signer);
    expect(readFileSync(join(directory, 'pki', 'etcd', 'peer.key'), 'utf8')).toBe(key);
    for (const { cert, ca, purpose } of Object.values(leaves())) {
      expect(openssl('verify', '-purpose', purpose, '-CAfile', ca, cert)).toContain('OK');
    }
  });
});
