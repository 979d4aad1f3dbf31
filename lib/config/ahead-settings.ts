// Configured renewal ahead of time: the policy for files of this host, and lives of single entries that override those
// of the inventory. Pure.
import { createHash } from 'node:crypto';
import { durationText } from '../duration.ts';
import type { Artefact, Inventory } from '../inventory/model.ts';
import { shortestMs } from '../inventory/discover/certificate-validity.ts';
import { isFile } from '../inventory/places.ts';
import { originalOf } from '../inventory/order.ts';
import { problemAt } from '../inventory/shape.ts';
import { defaultCaBeforeMs } from '../pki/ca-due.ts';
import type { RenewAhead } from '../plan/decision.ts';
import { parseWindow } from '../plan/window.ts';
import { type Problem, suggestion } from '../problems.ts';
import type { Settings } from './schema.ts';
import type { ConfigReading } from './sources.ts';

/** A hundred years. */
const longestMs = 36_500 * 86_400_000;

/** `node`: name from which the jitter derives. Undefined where renewal ahead of time is not configured. */
export function renewAheadOf({ regen, lives }: Settings, node: string): RenewAhead | undefined {
  const { renewBefore, caRenewBefore = defaultCaBeforeMs, warnOnly = false } = regen;
  const hasOwn = Object.values(lives).some((life) => life.renewBefore !== undefined);
  if (renewBefore === undefined && !hasOwn) return undefined;
  const window = regen.window === undefined ? undefined : parseWindow(regen.window);
  return {
    signerBeforeMs: caRenewBefore,
    jitter: jitterOf(node),
    warnOnly,
    ...(renewBefore !== undefined && { beforeMs: renewBefore }),
    ...(window !== undefined && { window }),
  };
}

/** Number from 0 to less than 1, derived only from the name: the same in each run and after each boot. */
export function jitterOf(node: string): number {
  return createHash('sha256').update(node).digest().readUInt32BE() / 2 ** 32;
}

/** Refuses settings that refine renewal ahead of time where it is not configured. */
export function checkAhead({ settings, flags, problems }: ConfigReading): void {
  const { regen } = settings;
  if (problems.some(({ path }) => path === '--renew-before' || path === 'regen.renewBefore')) return;
  if (renewAheadOf(settings, '') !== undefined) return;
  const typed = { window: '--window', warnOnly: '--warn-only' } as const;
  for (const field of ['caRenewBefore', 'window', 'warnOnly'] as const) {
    if (regen[field] === undefined || regen[field] === false) continue;
    const isTyped = field !== 'caRenewBefore' && flags.regen?.[field] !== undefined;
    const path = isTyped ? typed[field] : `regen.${field}`;
    const message = 'must be left out without --renew-before (or regen.renewBefore in the file)';
    problems.push({ path, kind: 'conflict', message });
  }
}

/** Returns the inventory with the lives of the configuration; adds their errors to the problems. */
export function withLives(inventory: Inventory, { settings, file, problems }: ConfigReading): Inventory {
  const { artefacts } = inventory;
  const names = artefacts.flatMap(({ kind, name }) => (kind === 'signer' || kind === 'target' ? [name] : []));
  const wrong = (name: string, kind: Problem['kind'], message: string, ...field: readonly string[]): void => {
    problems.push(problemAt(file.place, ['lives', name, ...field], { kind, message }));
  };
  for (const name of Object.keys(settings.lives).filter((one) => !names.includes(one)))
    wrong(name, 'notFound', `must be a signer or a target of the inventory, got "${name}"${suggestion(name, names)}`);
  const lived = artefacts.map((artefact): Artefact => {
    const life = Object.hasOwn(settings.lives, artefact.name) ? settings.lives[artefact.name] : undefined;
    if (life === undefined || (artefact.kind !== 'signer' && artefact.kind !== 'target')) return artefact;
    const { validity = artefact.validity, renewBefore } = life;
    const leastMs = isFile(artefact.location) ? shortestMs : 1000;
    const bounds = `must be at least ${durationText(leastMs)} and at most ${durationText(longestMs)}`;
    if (life.validity !== undefined && (validity < leastMs || validity > longestMs))
      wrong(artefact.name, 'invalid', `${bounds}, got ${durationText(validity)}`, 'validity');
    // A renewal that gains less than a tenth of the validity is never made.
    const most = Math.floor(validity * 0.9);
    if (renewBefore !== undefined && (renewBefore === 0 || renewBefore > most)) {
      const wanted = `must be more than 0s and at most nine tenths of the validity ${durationText(validity)}`;
      wrong(artefact.name, 'invalid', `${wanted}, got ${durationText(renewBefore)}`, 'renewBefore');
    }
    const part = artefact.refresh / artefact.validity;
    const refresh = renewBefore === undefined ? Math.round(validity * part) : validity - renewBefore;
    return { ...artefact, validity, refresh, ...(renewBefore !== undefined && { renewAhead: true }) };
  });
  for (const copy of lived) {
    const original = originalOf(lived, copy);
    if (copy.kind !== 'copy' || copy.promoteAfter === undefined) continue;
    if (original?.kind !== 'signer' && original?.kind !== 'target') continue;
    if (copy.promoteAfter < original.refresh) continue;
    const message = `must be renewed later than after the ${durationText(copy.promoteAfter)} in which "${copy.name}" follows it`;
    wrong(original.name, 'invalid', message);
  }
  return { ...inventory, artefacts: lived };
}
