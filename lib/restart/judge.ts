// Which processes are the readers of a file of ours, and which of them must be restarted. Pure: what /proc says and what
// the marker holds go in.
import { basename } from 'node:path';
import { flagsIn } from '../command-flags.ts';
import type { Component } from './component.ts';
import { isSamePlace, placeOf, type Place } from './mounts.ts';

/** A process, told from a later one with the same number by its start (clock ticks since boot). */
export interface ProcessId {
  readonly pid: number;
  readonly started: number;
}

export interface ProcessFacts extends ProcessId {
  readonly argv: readonly string[];
  /** Text of its mountinfo and cgroup files; empty where they cannot be read. */
  readonly mountinfo: string;
  readonly cgroup: string;
  /** Whether its PID namespace is ours. */
  readonly besideUs: boolean;
  /** Whether it runs as root, or as we do. */
  readonly isPrivileged: boolean;
}

/** Left in the lock directory for each component, from before its first file changes until it has been restarted. */
export interface Marker {
  /** /proc/sys/kernel/random/boot_id: whatever ran before a boot has ended. */
  readonly boot: string;
  /** `writing`: whether a file has changed is not known, because the run that changed it has died. */
  readonly state: 'writing' | 'written';
  /** Its processes when the last file had changed: they have read what was there before. */
  readonly running: readonly ProcessId[];
}

/** The value of a flag; of one that is given several times the last, which counts. */
export function flagOf(argv: readonly string[], flag: string): string | undefined {
  return flagsIn(argv).findLast(({ name }) => name === flag)?.value;
}

/**
 * The processes of a component on this machine's control plane. A machine may show those of others too, of clusters whose
 * nodes are containers: a kubelet must live beside us and be root's, and a static pod must have our file mounted.
 */
export function readersOf<P extends ProcessFacts>(
  { name, kubeconfig }: Pick<Component, 'name' | 'kubeconfig'>,
  processes: readonly P[],
  ours: (path: string) => readonly Place[],
): readonly P[] {
  const places = ours(kubeconfig);
  return processes.filter(({ argv, mountinfo, besideUs, isPrivileged }) => {
    const named = flagOf(argv, 'kubeconfig');
    if (componentOf(argv) !== name || named === undefined) return false;
    if (name === 'kubelet' && !(besideUs && isPrivileged)) return false;
    const place = placeOf(mountinfo, named);
    return places.some((one) => isSamePlace(place, one));
  });
}

export function componentOf(argv: readonly string[]): string {
  return basename(argv[0] ?? '');
}

/** Those that have read what was there before. Nothing survives a boot. */
export function due<P extends ProcessId>(marker: Marker, readers: readonly P[], boot: string): readonly P[] {
  if (marker.boot !== boot) return [];
  if (marker.state === 'writing') return readers;
  return readers.filter(({ pid, started }) => marker.running.some((one) => one.pid === pid && one.started === started));
}

/** The systemd unit that a process belongs to, by its control group; undefined when none manages it. */
export function unitOf(cgroup: string): string | undefined {
  return groupsOf(cgroup).flatMap((parts) => parts.findLast((part) => part.endsWith('.service')) ?? [])[0];
}

/** Whether it lives in somebody's login or user session (systemd.special(7): user.slice, logind's session scopes). */
export function isOfSession(cgroup: string): boolean {
  return groupsOf(cgroup).some((parts) =>
    parts.some((part) => part === 'user.slice' || /^session-.*\.scope$/.test(part)),
  );
}

/** The control groups that systemd manages, as parts of their paths. */
function groupsOf(cgroup: string): readonly (readonly string[])[] {
  return cgroup.split('\n').flatMap((line) => {
    const [, controllers = '', path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    return path === undefined || (controllers !== '' && controllers !== 'name=systemd') ? [] : [path.split('/')];
  });
}
