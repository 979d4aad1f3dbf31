import { expect, it } from 'vitest';
import { isOfSession, stateIn, unitOf } from '../../lib/host/systemd.ts';

it.each([
  ['0::/system.slice/kubelet.service\n', 'kubelet.service'],
  ['3:cpu:/x.service\n1:name=systemd:/system.slice/kubelet.service\n', 'kubelet.service'],
  ['0::/system.slice/containerd.service/kubepods/x.scope\n', 'containerd.service'],
  ['0::/\n', undefined],
  ['', undefined],
])('unitOf(%j) is %s', (cgroup, unit) => {
  expect(unitOf(cgroup)).toBe(unit);
});

it.each([
  ['0::/user.slice/user-1000.slice/session-3.scope\n', true],
  ['0::/user.slice/user-1000.slice/user@1000.service/app.slice/a.service\n', true],
  ['1:name=systemd:/user.slice/user-0.slice/session-1.scope\n', true],
  ['3:cpu:/user.slice\n1:name=systemd:/system.slice/kubelet.service\n', false],
  ['0::/kubepods.slice/a.scope\n', false],
  ['', false],
])('isOfSession(%j) is %s', (cgroup, isIt) => {
  expect(isOfSession(cgroup)).toBe(isIt);
});

it.each([
  ['ActiveState=activating\nSubState=auto-restart\n', 'activating/auto-restart'],
  ['SubState=running\nActiveState=active\n', 'active/running'],
  ['', '/'],
])('stateIn(%j) is %s', (shown, state) => {
  expect(stateIn(shown)).toBe(state);
});
