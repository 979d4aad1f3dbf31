// Last lines of `status` on a machine, at most three: what is wrong, whether it repairs itself, the one command to run.
// Pure.
import { expiresText, residualText } from './expiry-text.ts';
import { restartCommand } from './former-text.ts';
import { isDifferent, nodeRows, type NodeStatus } from './node-report.ts';
import type { RowState, StatusRow } from './report.ts';

export interface NodeVerdict {
  /** `unarmed`: nothing is wrong, and nothing would repair it. */
  readonly tone: 'good' | 'unarmed' | 'bad';
  readonly lines: readonly string[];
}

const wrongStates: readonly RowState[] = ['EXPIRED', 'NOT YET VALID', 'MISSING', 'BROKEN', 'UNKNOWN'];

export function verdictOf(status: NodeStatus): NodeVerdict {
  const isWell = status.class === 'healthy';
  return {
    tone: waitsForRestart(status) ? 'good' : !isWell ? 'bad' : status.isArmed ? 'good' : 'unarmed',
    lines: [isWell ? wellText(status) : wrongText(status), armedText(status), commandText(status)],
  };
}

/** Unchecked parts are reported, and not counted as healthy. */
function wellText({ isForecast, at, served }: NodeStatus): string {
  if (isForecast) return `Off until ${expiresText(at)}, this node would find every certificate valid.`;
  const silent = served.filter(({ state }) => state === 'unreachable').map(({ component }) => component);
  if (silent.length === 0) return 'Everything is as it should be.';
  const names = [...new Set(silent)].join(', ');
  const verb = names.includes(',') ? 'do' : 'does';
  return `Every certificate on disk is as it should be. ${names} ${verb} not answer, so what is in use was not looked at.`;
}

function wrongText(status: NodeStatus): string {
  const { isForecast, at, isArmed, stillRepairs, class: state, adopted } = status;
  const wrong = wrongIn(status);
  if (!isForecast) return adopted?.problem === undefined ? wrong : `Not everything could be looked at. ${wrong}`;
  const because = isArmed || state === 'stuck' ? '' : ', because it is not armed';
  const would = because !== '' && stillRepairs !== undefined ? 'may' : 'would';
  const back = isArmed && state !== 'stuck' ? 'come back by itself' : `not come back by itself${because}`;
  return `Off until ${expiresText(at)}, this node ${would} ${back}: ${wrong}`;
}

const wrongRows = (status: NodeStatus): readonly StatusRow[] =>
  nodeRows(status).filter((row) => wrongStates.includes(row.state) && (row.action !== 'keep' || row.byHand === true));

/** `2 of 17 certificates expired, the first 35d ago (Oct 24, 2026 00:00 UTC); their CAs and keys are good.` */
function wrongIn(status: NodeStatus): string {
  const parts = partsOf(status);
  if (parts.length === 0) return status.problems.length > 0 ? 'Something is wrong (see above).' : 'Something is wrong.';
  return `${parts.join(', ')}${signersText(wrongRows(status), status)}.`;
}

function partsOf(status: NodeStatus): readonly string[] {
  const rows = wrongRows(status);
  const counted = wrongStates.flatMap((state) => {
    const count = rows.filter((row) => row.state === state).length;
    return count === 0 ? [] : [`${count} ${state.toLowerCase()}${state === 'EXPIRED' ? sinceText(rows) : ''}`];
  });
  const { served, former, adopted } = status;
  const others: readonly (readonly [number | undefined, string])[] = [
    [served.filter(isDifferent).length, 'not served'],
    [served.filter(({ ends }) => ends === 'EXPIRED').length, 'expired in memory'],
    [former.length, 'not loaded'],
    [adopted?.pods.filter(({ state }) => state !== 'ready').length, 'containers not ready'],
    [adopted?.objects?.rows.filter(({ state }) => wrongStates.includes(state)).length, 'in the API'],
    [adopted?.objects?.rows.filter(({ onDisk = 'same' }) => onDisk !== 'same').length, 'not on disk'],
  ];
  return [
    ...counted.map((text, at) => (at === 0 ? text.replace(' ', ` of ${nodeRows(status).length} certificates `) : text)),
    ...others.flatMap(([count = 0, what]) => (count === 0 ? [] : [`${count} ${what}`])),
  ];
}

/** The first restart that loads what is not loaded, where nothing else is wrong, and none is due now. */
function restartIn(status: NodeStatus): Date | undefined {
  const { former, at } = status;
  const [first] = former.flatMap(({ restartsAt }) => restartsAt ?? []).toSorted((a, b) => a.getTime() - b.getTime());
  return first !== undefined && at < first && partsOf(status).length === 1 ? first : undefined;
}

/**
 * Whether all that is left is a restart of a later day, which the timer makes by itself before a loaded certificate
 * ends. Until then every component works with what it has: a certificate of its own. One that has not loaded a CA may
 * refuse the clients of that CA today.
 */
export function waitsForRestart(status: NodeStatus): boolean {
  const leaves = new Set(nodeRows(status).flatMap(({ artefact, kind }) => (kind === 'target' ? [artefact] : [])));
  const isOfLeaves = status.former.every(({ artefact }) => leaves.has(artefact));
  return status.isArmed && status.class === 'recovering' && isOfLeaves && restartIn(status) !== undefined;
}

function sinceText(rows: readonly StatusRow[]): string {
  const expired = rows.filter(({ state, residualMs }) => state === 'EXPIRED' && residualMs !== undefined);
  const [first] = expired.toSorted((a, b) => (a.residualMs ?? 0) - (b.residualMs ?? 0));
  if (first?.notAfter === undefined) return '';
  const ago = `${residualText(-(first.residualMs ?? 0))} ago (${expiresText(first.notAfter)})`;
  return expired.length === 1 ? ` ${ago}` : `, the first ${ago}`;
}

/** Whether the CAs and keys of what is wrong serve for new certificates. */
function signersText(rows: readonly StatusRow[], { authorities }: NodeStatus): string {
  const byHand = rows.filter((row) => row.byHand === true);
  const issuers = new Set(byHand.map(({ issuer, artefact }) => issuer ?? artefact));
  const count = `; ${byHand.length} `;
  if (authorities.some(({ artefact, state }) => issuers.has(artefact) && state === 'EXPIRED'))
    return `${count}by a CA that has expired`;
  if (byHand.some(({ isForeign }) => isForeign)) return `${count}by a CA whose key is not here`;
  if (byHand.length > 0) return `${count}cannot be made here`;
  const isSigned = rows.length > 0 && rows.every(({ renewal }) => renewal === 'reissued');
  return isSigned ? '; their CAs and keys are good' : '';
}

/** What of an unarmed machine still repairs it: `nothing here is known to`. */
export function knownText({ stillRepairs, starter }: Pick<NodeStatus, 'stillRepairs' | 'starter'>): string {
  const parts = { start: `only the start of ${starter}`, timer: 'only the timer' };
  return `${stillRepairs === undefined ? 'nothing here' : parts[stillRepairs]} is known to`;
}

function armedText(status: NodeStatus): string {
  const { isArmed, reasons, class: state, isForecast, starter } = status;
  const why = reasons.length === 0 ? '' : `: ${reasons.join('; ')}`;
  if (!isArmed) return `ARMED: no${why}. ${knownText(status).replace(/^./, (first) => first.toUpperCase())} repair it.`;
  const when = isForecast ? '' : 'within a minute, at the latest ';
  const again = isForecast ? '' : ' again';
  const restart = restartIn(status);
  const recovering =
    restart === undefined
      ? ` It repairs itself ${when}before ${starter} starts${again}.`
      : ` It restarts what has not loaded its file, the first ${expiresText(restart)}.`;
  const repair = { healthy: '', recovering, stuck: ' It repairs what it can.' }[state];
  return `ARMED: yes${why}.${repair}`;
}

/** A machine that is not armed is armed first: that repairs what it can. */
function commandText(status: NodeStatus): string {
  const { isArmed, remedy, problems, former } = status;
  if (!isArmed) return remedy;
  if (problems.length > 0) return 'To do: what is listed above.';
  const isLater = restartIn(status) !== undefined;
  return `Nothing to do.${isLater ? ` To load it today: ${[...new Set(former.map(restartCommand))].join('; ')}` : ''}`;
}
