// Which file of which file system a path refers to, by /proc/<pid>/mountinfo (proc_pid_mountinfo(5)). Pure. Paths of
// two processes with different mounts refer to the same file when device and path below the root of its file system
// agree: so for a static pod that has only the one file of the host mounted, and not for the pod of another control
// plane in a container.

export interface MountedPlace {
  /** `major:minor`. */
  readonly device: string;
  /** Path from the root of the file system. */
  readonly path: string;
}

interface Mount {
  readonly device: string;
  readonly root: string;
  readonly point: string;
}

/** Decodes a path of mountinfo, with blanks and backslashes as octal numbers. */
const plain = (text: string): string =>
  text.replaceAll(/\\([0-7]{3})/g, (_all, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));

/** Mounts in the order in which they were mounted. */
export function mountsOf(mountinfo: string): readonly Mount[] {
  return mountinfo.split('\n').flatMap((line) => {
    const [, , device, root, point] = line.split(' ');
    if (device === undefined || root === undefined || point === undefined) return [];
    // A single file that was replaced on the host since it was mounted: the mount holds the old one until it is
    // unmounted.
    return [{ device, root: plain(root).replace(/\/\/deleted$/, ''), point: plain(point) }];
  });
}

/** Whether a path is that directory or lies in it. */
export const isBelow = (path: string, directory: string): boolean =>
  path === directory || path.startsWith(directory.endsWith('/') ? directory : `${directory}/`);

/** Place of `path`; undefined when nothing is mounted there. Of stacked mounts the last one counts. */
export function placeOf(mountinfo: string, path: string): MountedPlace | undefined {
  let best: Mount | undefined;
  for (const mount of mountsOf(mountinfo)) {
    if (isBelow(path, mount.point) && (best === undefined || mount.point.length >= best.point.length)) best = mount;
  }
  if (best === undefined) return undefined;
  const rest = path.slice(best.point.length).replace(/^\//, '');
  const root = best.root.replace(/\/$/, '');
  return { device: best.device, path: rest === '' ? best.root : `${root}/${rest}` };
}

export function isSamePlace(one: MountedPlace | undefined, other: MountedPlace | undefined): boolean {
  return one !== undefined && other !== undefined && one.device === other.device && one.path === other.path;
}
