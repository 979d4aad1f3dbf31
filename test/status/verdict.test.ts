// The last lines of `status` on a machine, in each state that it can be in.
import { describe, expect, it } from 'vitest';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import { renderNode, showsColours } from '../../lib/status/print.ts';
import { type NodeVerdict, verdictOf } from '../../lib/status/verdict.ts';
import { at, present } from '../support/facts.ts';
import { authority, leaf, now, tell, type Told, withoutKey } from './node.ts';

const armed: Told = { reasons: ['service, timer and drop-in are loaded', 'last run today'] };
const unarmed: Told = { isArmed: false, reasons: ['"x.timer" absent'], remedy: 'Run: kube-cert-recovery init host' };
const expired = {
  apiserver: present(leaf('apiserver', 'ca', -35)),
  'scheduler.conf': { ...present(leaf('s', 'ca', -30)), authorities: ['ca'] },
};
const byOthers = present({ ...authority('ca', -1), signedBy: ['above'] });
const rests = 'service, timer and drop-in are loaded; last run today';
const yes = `ARMED: yes: ${rests}; CAs valid until May 29, 2036 00:00 UTC.`;
const armedBut = (limit: string): string => expect.stringMatching(new RegExp(`^ARMED: yes: ${rests}; .*${limit}`));
const no = 'ARMED: no: "x.timer" absent. Nothing here is known to repair it.';
const partly: Told = { ...unarmed, stillRepairs: 'start' };
const onlyAtStart = 'ARMED: no: "x.timer" absent. Only the start of the kubelet is known to repair it.';
const onlyByTimer = 'ARMED: no: "x.timer" absent. Only the timer is known to repair it.';
const wrong = '2 of 18 certificates expired, the first 35d ago (Apr 27, 2026 00:00 UTC)';
const byHand = 'To do: what is listed above.';

describe('verdictOf()', () => {
  it.each<
    readonly [string, Readonly<Record<string, ArtefactFacts | null>>, Told, NodeVerdict['tone'], readonly string[]]
  >([
    ['healthy and armed', {}, armed, 'good', ['Everything is as it should be.', yes, 'Nothing to do.']],
    ['healthy and not armed', {}, unarmed, 'unarmed', ['Everything is as it should be.', no, unarmed.remedy ?? '']],
    [
      'expired and armed',
      expired,
      armed,
      'bad',
      [
        `${wrong}; their CAs and keys are good.`,
        `${yes} It repairs itself within a minute, at the latest before the kubelet starts again.`,
        'Nothing to do.',
      ],
    ],
    [
      'expired and not armed',
      expired,
      unarmed,
      'bad',
      [`${wrong}; their CAs and keys are good.`, no, unarmed.remedy ?? ''],
    ],
    [
      'expired and the key of the CA is elsewhere',
      { ...expired, ca: withoutKey('ca') },
      armed,
      'bad',
      [
        `${wrong}; 2 by a CA whose key is not here.`,
        armedBut('; CA key elsewhere: ca\\. It repairs what it can\\.$'),
        byHand,
      ],
    ],
    [
      'expired with its CA, which others sign',
      { ...expired, ca: byOthers },
      armed,
      'bad',
      [
        expect.stringMatching(/expired, the first 35d ago .*; \d+ by a CA that has expired\.$/),
        armedBut('CA expired: ca\\.'),
        byHand,
      ],
    ],
    [
      'one missing and one broken',
      { apiserver: null, 'etcd-peer': { state: 'broken', problem: 'unreadable', version: '1', message: 'no PEM' } },
      armed,
      'bad',
      [
        '1 of 18 certificates missing, 1 broken; their CAs and keys are good.',
        expect.stringContaining('It repairs itself'),
        'Nothing to do.',
      ],
    ],
    [
      'off until a day after all have expired, armed',
      {},
      { ...armed, time: at(400), isForecast: true },
      'bad',
      [
        expect.stringMatching(/^Off until Jul 06, 2027 00:00 UTC, this node would come back by itself: 1\d of 1\d /),
        `${yes} It repairs itself before the kubelet starts.`,
        'Nothing to do.',
      ],
    ],
    [
      'off until a day after all have expired, not armed',
      {},
      { ...unarmed, time: at(400), isForecast: true },
      'bad',
      [
        expect.stringContaining('this node would not come back by itself, because it is not armed: 1'),
        no,
        unarmed.remedy ?? '',
      ],
    ],
    [
      'healthy, and repaired at a start of the kubelet only',
      {},
      partly,
      'unarmed',
      ['Everything is as it should be.', onlyAtStart, unarmed.remedy ?? ''],
    ],
    [
      'off until a day after all have expired, repaired by the timer only',
      {},
      { ...partly, stillRepairs: 'timer', time: at(400), isForecast: true },
      'bad',
      [
        expect.stringContaining('this node may not come back by itself, because it is not armed: 1'),
        onlyByTimer,
        unarmed.remedy ?? '',
      ],
    ],
  ])('%s', (_, changes, told, tone, lines) => {
    expect(verdictOf(tell(changes, told))).toEqual({ tone, lines });
  });
});

describe('renderNode()', () => {
  it('ends with it, and shows no name twice that is only expired', () => {
    const text = renderNode(tell(expired, unarmed), { output: 'table' });
    expect(text.trimEnd().split('\n').slice(-3)).toEqual(verdictOf(tell(expired, unarmed)).lines);
    expect(text).toMatch(/^2 above +EXPIRED +reissued once armed +expired \(<invalid>\)$/m);
    expect(text.match(/^apiserver /gm)).toHaveLength(1);
  });

  it('colours the first two lines, where it may', () => {
    const shown = (told: Told) => renderNode(tell({}, told), { output: 'table', isColoured: true });
    expect(shown(armed)).toContain('\u001B[32mEverything is as it should be.\u001B[0m\n\u001B[32mARMED: yes');
    expect(shown(unarmed)).toContain(`\u001B[33m${no}\u001B[0m\nRun: `);
    expect(renderNode(tell(expired, armed), { output: 'table', isColoured: true })).toContain(`\u001B[31m${wrong}`);
    expect(renderNode(tell(expired, armed), { output: 'table' })).not.toContain('\u001B');
    expect(showsColours(true, {})).toBe(true);
    expect(showsColours(true, { NO_COLOR: '' })).toBe(true);
    for (const env of [{ NO_COLOR: '1' }, { TERM: 'dumb' }]) expect(showsColours(true, env)).toBe(false);
    expect(showsColours(undefined, {})).toBe(false);
  });

  it('has the same facts as JSON', () => {
    expect(JSON.parse(renderNode(tell({}, { ...unarmed, time: now }), { output: 'json' }))).toMatchObject({
      armed: false,
      reasons: unarmed.reasons,
    });
  });
});
