// `status --wait` and `--watch`: when it looks again, what it prints, and how it ends.
import { describe, expect, it } from 'vitest';
import { showStatus, type StatusLook, waitUntilWell } from '../../cmd/status-again.ts';
import { isWell, madeSince } from '../../lib/status/well.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { at, present } from '../support/facts.ts';
import { leaf, now, tell } from '../status/node.ts';

const healthy = tell();
const expired = tell({ apiserver: present(leaf('apiserver', 'ca', -1)) });
const well: StatusLook = { status: healthy, text: 'well\n', exit: 0, isWell: true, headline: 'Well.' };
const wrong: StatusLook = { status: expired, text: 'wrong\n', exit: 3, isWell: false, headline: 'Expired.' };

/** `looks` in turn, the last one again and again; a clock that only sleeping moves. */
function world(...looks: readonly (StatusLook | Error)[]) {
  const [out, err, stop] = [[] as string[], [] as string[], new AbortController()];
  let [ms, count] = [0, 0];
  const clock = {
    now: () => new Date(ms),
    uptimeSeconds: () => ms / 1000,
    sleep: async (forMs: number) => {
      ms += forMs;
      if (ms > 600_000) stop.abort('enough');
    },
  };
  const look = async (): Promise<StatusLook> => {
    const next = looks[Math.min(count, looks.length - 1)] ?? well;
    count += 1;
    if (next instanceof Error) throw next;
    return next;
  };
  const stderr = { write: (text: string) => err.push(text), isTTY: true };
  const io = {
    argv: [],
    env: {},
    cwd: '/',
    stdout: { write: (text: string) => out.push(text) },
    stderr,
    signal: stop.signal,
  };
  return { out, err, clock, look, io, seconds: () => ms / 1000, looked: () => count };
}

const away = new RecoveryError('KubeUnavailable', 'Cannot reach the API');

describe('status', () => {
  it('looks once, without --wait and --watch', async () => {
    const { look, clock, io, out, looked } = world(wrong);
    expect(await showStatus(look, { clock }, io)).toBe(3);
    expect([out, looked()]).toEqual([['wrong\n'], 1]);
  });

  it('--wait looks until all is well, shows that on a terminal, and prints the last report alone', async () => {
    const { look, clock, io, out, err, seconds } = world(away, wrong, wrong, well);
    expect(await showStatus(look, { waitMs: 60_000, clock }, io)).toBe(0);
    expect([out, seconds()]).toEqual([['well\n'], 3]);
    expect(err.map((text) => text.replace('\r\u001B[K', ''))).toEqual([
      'The API does not answer. Waiting (0 s) ...',
      'Expired. Waiting (1 s) ...',
      'Expired. Waiting (2 s) ...',
      'Well. Waiting (3 s) ...',
      '',
    ]);
  });

  it('--wait ends after its time with the exit code of the last report, or its error', async () => {
    const { look, clock, io, out, seconds } = world(wrong);
    expect(await showStatus(look, { waitMs: 5000, clock }, io)).toBe(3);
    expect([out, seconds()]).toEqual([['wrong\n'], 5]);
    const without = world(away);
    await expect(showStatus(without.look, { waitMs: 5000, clock: without.clock }, without.io)).rejects.toBe(away);
    const usage = world(new RecoveryError('ConfigInvalid', 'wrong'));
    await expect(waitUntilWell(usage.look, { waitMs: 5000, clock: usage.clock }, usage.io)).rejects.toThrow('wrong');
    expect(usage.looked()).toBe(1);
  });

  it('--wait says nothing of its progress where no terminal shows it', async () => {
    const { look, clock, io, err } = world(wrong, well);
    await showStatus(look, { waitMs: 5000, clock }, { ...io, stderr: { ...io.stderr, isTTY: false } });
    expect(err).toEqual([]);
  });

  it('--watch prints again when something has changed, and not when time alone has passed', async () => {
    const later = {
      ...wrong,
      status: tell({ apiserver: present(leaf('apiserver', 'ca', -1)) }, { time: at(0.01) }),
      text: 'later\n',
    };
    const { look, clock, io, out } = world(wrong, later, well, wrong);
    expect(await showStatus(look, { isWatched: true, clock }, io)).toBe(3);
    expect(out).toEqual(['wrong\n', '\nwell\n', '\nwrong\n']);
  });
});

it('a machine is well when it is healthy and all of its servers answer', () => {
  const served = (state: 'same' | 'unreachable') =>
    tell({}, { served: [{ component: 'etcd', address: 'a', artefact: 'etcd-server', state, message: '' }] });
  expect([healthy, expired, served('same'), served('unreachable')].map(isWell)).toEqual([true, false, true, false]);
  const renewed = tell({ apiserver: present(leaf('apiserver', 'ca', 364)) }, { time: now });
  expect(madeSince(expired, renewed)).toEqual(['apiserver']);
  expect(madeSince(healthy, healthy)).toEqual([]);
});
