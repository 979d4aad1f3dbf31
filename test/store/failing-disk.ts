// The real disk with one call that fails: the nth of all calls, those of opened files included. With `forever` every
// later call fails too, which leaves on disk what a process leaves that is killed there.
import type { FileHandle } from 'node:fs/promises';
import { type Disk, realDisk } from '../../lib/disk/disk.ts';

export interface FailingDisk {
  readonly disk: Disk;
  /** Names of the calls that were made, in order: `rename`, `open`, `handle.sync`. */
  readonly calls: string[];
}

export interface Failure {
  /** The call that fails, counted from 0; Infinity: none. */
  readonly at: number;
  readonly code: string;
  readonly forever: boolean;
  /** Runs before the call with this name is let through. */
  readonly before?: { readonly call: string; readonly run: () => Promise<void> };
}

type AnyCall = (...args: readonly unknown[]) => Promise<unknown>;

export function failingDisk({ at, code, forever, before }: Failure): FailingDisk {
  const calls: string[] = [];
  const guarded =
    (name: string, call: AnyCall): AnyCall =>
    async (...args) => {
      const index = calls.push(name) - 1;
      if (index === at || (forever && index > at)) throw Object.assign(new Error(`${code}: ${name}`), { code });
      if (before?.call === name) await before.run();
      const result = await call(...args);
      return name === 'open' ? guardedHandle(result as FileHandle) : result;
    };
  const guardedHandle = (handle: FileHandle): FileHandle =>
    new Proxy(handle, {
      get(target, property) {
        const value: unknown = Reflect.get(target, property, target);
        if (typeof value !== 'function') return value;
        const call = value.bind(target) as AnyCall;
        // A killed process has its files closed for it.
        return property === 'close' ? call : guarded(`handle.${String(property)}`, call);
      },
    });
  const disk = Object.fromEntries(
    Object.entries(realDisk).map(([name, call]) => [name, guarded(name, call as AnyCall)] as const),
  );
  return { disk: disk as unknown as Disk, calls };
}
