// Settings of CAs that must be on nodes before they sign, and what they are in the policy.
import * as z from 'zod';
import { objectName } from '../inventory/values.ts';
import type { RenewalPolicy } from '../plan/decision.ts';

export const fleetSettings = {
  waitForNodes: z
    .record(objectName, z.array(objectName).min(1))
    .default({})
    .describe(
      'By signer: bundles of nodes (BUNDLE of status --fleet) that must hold a new CA of it on every node before it signs. Default: none, it signs once it is old enough',
    ),
  acceptLagging: z
    .array(objectName)
    .default([])
    .describe('With waitForNodes: nodes that are not waited for. Default: none'),
};

interface FleetSettings {
  readonly waitForNodes: Readonly<Record<string, readonly string[]>>;
  readonly acceptLagging: readonly string[];
}

export function fleetPolicyOf({
  waitForNodes,
  acceptLagging,
}: FleetSettings): Pick<RenewalPolicy, 'waitForNodes' | 'acceptedLagging'> {
  const waits = Object.entries(waitForNodes);
  return waits.length === 0 ? {} : { waitForNodes: new Map(waits), acceptedLagging: new Set(acceptLagging) };
}
