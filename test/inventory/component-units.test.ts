// Units of systemd that start a component in another way than `systemctl enable` of a unit with its command.
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readComponents } from '../../lib/inventory/discover/components-here.ts';
import { readerBelow } from '../../lib/inventory/discover/machine-files.ts';
import { unreadSettings } from '../../lib/inventory/discover/files-of-flags.ts';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'units-'));
});
afterEach(() => rm(root, { recursive: true }));

const units = '/etc/systemd/system';
const etcd = '[Service]\nExecStart=/usr/bin/etcd --cert-file=/a.crt\n';

async function put(files: Readonly<Record<string, string>>): Promise<void> {
  for (const [file, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, file)), { recursive: true });
    await writeFile(join(root, file), text);
  }
}

async function want(name: string): Promise<void> {
  await mkdir(join(root, `${units}/multi-user.target.wants`), { recursive: true });
  await symlink('/nowhere', join(root, `${units}/multi-user.target.wants/${name}`));
}

const read = () =>
  readComponents(readerBelow(root), {
    manifests: {},
    manifestFiles: {},
    units: readerBelow(root),
    kubeletConfiguration: '/var/lib/kubelet/config.yaml',
  });

describe('a unit is read', () => {
  const certificate = async (): Promise<string | undefined> => (await read())['etcd']?.values.get('cert-file')?.at(-1);

  it('that another one needs', async () => {
    await put({
      [`${units}/etcd.service`]: etcd,
      [`${units}/base.service`]: '[Unit]\nWants=x.service etcd.service\n[Service]\nExecStart=/bin/true\n',
    });
    expect(await certificate()).toBeUndefined();
    await put({
      [`${units}/kubelet.service.d/10.conf`]: '',
      [`${units}/kubelet.service`]: '[Unit]\nRequires=base.service\n',
    });
    expect(await certificate()).toBe('/a.crt');
  });

  it('that is an instance of a template, with the drop-ins of both', async () => {
    await put({
      [`${units}/etcd@.service`]: '[Service]\nExecStart=/usr/bin/etcd $A --cert-file=/%i.crt\n',
      [`${units}/etcd@.service.d/10.conf`]: '[Service]\nEnvironment=A=--key-file=/template.key\n',
      [`${units}/etcd@main.service.d/20.conf`]: '[Service]\nEnvironment=A=--key-file=/own.key\n',
    });
    await want('etcd@main.service');
    expect(await certificate()).toBe('/main.crt');
    expect((await read())['etcd']?.values.get('key-file')).toEqual(['/own.key']);
  });

  it('with environment files by a pattern, and comments between its lines', async () => {
    await put({
      [`${units}/etcd.service`]:
        '[Service]\nEnvironmentFile=-/etc/sysconfig/*.env\nExecStart=/usr/bin/etcd \\\n  # note\n  --cert-file=${C}\n',
      '/etc/sysconfig/a.env': 'C=/a.crt\n',
      '/etc/sysconfig/b.txt': 'C=/b.crt\n',
    });
    await want('etcd.service');
    expect(await certificate()).toBe('/a.crt');
  });

  it.each(['/opt/bin/etcd-v3.5.9', '@/opt/bin/etcd-3.5.9 etcd'])('that starts %s', async (program) => {
    await put({ [`${units}/etcd.service`]: `[Service]\nExecStart=${program} --cert-file=/a.crt\n` });
    await want('etcd.service');
    expect(await certificate()).toBe('/a.crt');
  });
});

it('a unit of a component that starts it unseen is reported', async () => {
  await put({ [`${units}/kubelet.service`]: '[Service]\nExecStart=/opt/start.sh\n' });
  const [one, ...others] = unreadSettings(await read());
  expect(others).toEqual([]);
  expect(one).toMatchObject({ component: 'kubelet', file: `${units}/kubelet.service` });
  expect(one?.message).toContain('Cannot find the flags of kubelet');
});
