// The part of mode approver in the configuration: its settings with their defaults, and that alone it needs no inventory.
// Pure.
import { defaultBootstrapNamespace } from './bootstrap-identity.ts';
import type { Reading } from './config-reading.ts';
import type { Settings } from './config-schema.ts';
import type { ApproverConfig } from './config-types.ts';
import type { Inventory } from './inventory/model.ts';

const yearMs = 365 * 86_400_000;

export function approverOf({ approver, regen }: Settings, kubeconfig: string): ApproverConfig {
  return {
    mode: 'approver',
    kubeconfig,
    nodeCertificate: approver?.nodeCertificate ?? '/var/lib/kubelet/pki/kubelet-client-current.pem',
    longestLifeMs: approver?.longestLife ?? yearMs,
    expectedNodes: approver?.expectedNodes ?? [],
    bootstrapNamespace: approver?.bootstrapNamespace ?? defaultBootstrapNamespace,
    // One machine has one clock.
    clockSynchronised: regen?.clockSynchronised ?? 'auto',
  };
}

/** What stands for an inventory where none is named and nothing but requests of kubelets is looked at. */
export function inventoryOfApprover({ settings, file }: Reading): Inventory | undefined {
  const { modes = [], preset } = settings;
  const isAlone = modes.length > 0 && modes.every((mode) => mode === 'approver');
  const isNamed = preset !== undefined || file.inline !== undefined || file.unread;
  return isAlone && !isNamed ? { name: 'none', parameters: {}, artefacts: [] } : undefined;
}
