// A process that dies in the middle of a renewal: replaces a pair, a kubelet's link, a kubeconfig with embedded and one
// with referenced credentials, and kills itself just before its nth call to the disk.
// Usage: node store-child.ts <directory> <material> <n>. Without dying it prints how many calls it made.
import { readFile, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { type Disk, realDisk } from '../../../lib/disk/disk.ts';
import { createDiskStore } from '../../../lib/store/disk-store.ts';
import { hostFiles, materialIn, withAuthority } from '../../store/host-files.ts';

type AnyCall = (...args: readonly unknown[]) => Promise<unknown>;

const [directory = '', material = '', nth = ''] = process.argv.slice(2);
let calls = 0;

const counted =
  (name: string, call: AnyCall): AnyCall =>
  async (...args) => {
    if (calls === Number(nth)) process.kill(process.pid, 'SIGKILL');
    calls += 1;
    const result = await call(...args);
    return name === 'open' ? countedHandle(result as FileHandle) : result;
  };

const countedHandle = (handle: FileHandle): FileHandle =>
  new Proxy(handle, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === 'function' ? counted(String(property), value.bind(target) as AnyCall) : value;
    },
  });

const disk = Object.fromEntries(
  Object.entries(realDisk).map(([name, call]) => [name, counted(name, call as AnyCall)] as const),
) as unknown as Disk;

const { signal } = new AbortController();
const { pair, admin, kubelet, server } = hostFiles(directory);
const second = await materialIn(material, 'second');
const authority = await readFile(join(material, 'ca-second', 'tls.crt'));
const store = createDiskStore({ disk, backupDir: join(directory, 'backup') });

for (const location of [pair, server, kubelet, admin]) {
  const found = await store.read(location, signal);
  const next = location.kind === 'kubeconfig' ? withAuthority(second, authority) : second;
  await store.write(location, next, found === undefined ? 'absent' : { version: found.version }, signal);
}
process.stdout.write(`${calls}\n`);
