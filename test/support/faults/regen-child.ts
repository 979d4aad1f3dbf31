// A process of regen whose memory is measured: heals what an inventory names in the API, once, and prints what has come of
// it. Usage: node --max-old-space-size=64 regen-child.ts <kubeconfig> <file of the inventory, JSON>.
import { readFile } from 'node:fs/promises';
import { systemClock } from '../../../lib/clock.ts';
import type { Resolved } from '../../../lib/inventory/model.ts';
import { openConnection } from '../../../lib/kube/connection.ts';
import { createLog } from '../../../lib/log.ts';
import { createKeyPool } from '../../../lib/pki/key-pool.ts';
import { runRegen } from '../../../lib/regen/run.ts';
import { createApiStore } from '../../../lib/store/api-store.ts';

const [kubeconfigFile = '', inventory = ''] = process.argv.slice(2);
const resolved = JSON.parse(await readFile(inventory, 'utf8')) as Resolved;
const clock = systemClock;
const connection = await openConnection({ kubeconfigFile, clock, userAgent: 'regen-child' });
const algorithm = { name: 'ECDSA', curve: 'P-256' } as const;
const { converged, writes, gaveUp, artefacts } = await runRegen({
  resolved,
  store: createApiStore({ connection, fieldManager: 'kube-cert-recovery' }),
  policy: { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 },
  clockFacts: () => ({ builtAt: new Date('2025-01-01T00:00:00Z'), synchronised: true }),
  clock,
  log: createLog({ write: () => undefined }),
  keyPool: createKeyPool({ algorithm, size: 32 }),
  keyAlgorithm: algorithm,
  once: true,
  dryRun: false,
  signal: new AbortController().signal,
});
await connection.close();
const left = artefacts
  .filter(({ action }) => action !== 'keep')
  .map(({ artefact, message }) => ({ artefact, message }));
const peakMb = Math.round(process.resourceUsage().maxRSS / 1024);
process.stdout.write(JSON.stringify({ converged, writes, gaveUp, left, peakMb }));
