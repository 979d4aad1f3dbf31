// A control plane started from nothing but what `init render` wrote, with all four components and no other PKI.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../../lib/clock.ts';
import { type RenderOutcome, runRender } from '../../../lib/install/render.ts';
import type { Resolved } from '../../../lib/inventory/model.ts';
import { loadPreset } from '../../../lib/inventory/preset.ts';
import { resolve } from '../../../lib/inventory/resolve.ts';
import { openConnection } from '../../../lib/kube/connection.ts';
import type { KubeConnection } from '../../../lib/kube/kube.ts';
import { type ControlPlane, startControlPlane } from './control-plane.ts';
import { choosePorts } from './preparation.ts';

export interface RenderedControlPlane extends AsyncDisposable {
  readonly controlPlane: ControlPlane;
  readonly resolved: Resolved;
  readonly rendered: RenderOutcome;
  /** Where `init render` wrote to. */
  readonly out: string;
  /** The address that kubeconfigs name. */
  readonly server: string;
  /** With the rendered admin client certificate. */
  readonly admin: KubeConnection;
}

export async function startRenderedControlPlane(): Promise<RenderedControlPlane> {
  const root = mkdtempSync(join(tmpdir(), 'rendered-'));
  const out = join(root, 'out');
  const ports = await choosePorts();
  const resolved = resolve(loadPreset('kubernetes'), {
    parameters: { apiServerHostnames: ['127.0.0.1'], serviceIP: ['10.0.0.1'] },
    directories: { pkiDir: join(root, 'pki') },
  });
  const server = `https://localhost:${ports.apiserver}`;
  const { signal } = new AbortController();
  const rendered = await runRender({ resolved, directory: out, server, clock: systemClock, signal });
  const bundle = join(out, 'certs', 'configmaps', 'kube-apiserver-server-ca', 'ca-bundle.crt');
  const controlPlane = await startControlPlane({
    components: ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler'],
    ownPki: false,
    trust: { servingCa: bundle, recoveryCa: bundle },
    ports,
    flags: rendered.flags,
  });
  const kubeconfigFile = rendered.kubeconfigs['admin'] ?? '';
  const admin = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
  return {
    controlPlane,
    resolved,
    rendered,
    out,
    server,
    admin,
    async [Symbol.asyncDispose]() {
      await admin.close();
      await controlPlane[Symbol.asyncDispose]();
      rmSync(root, { recursive: true, force: true });
    },
  };
}
