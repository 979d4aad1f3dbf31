// The disk of a node: a small Debian with what a kubelet needs around it, made by debootstrap once, kept in the cache,
// and imported into Docker when that does not have it.
import { createReadStream } from 'node:fs';
import { getContainerRuntimeClient, ImageName } from 'testcontainers';
import type { Progress } from '../cluster/progress.ts';
import { debianRoot, rootIdentity } from './debian-root.ts';

const packages = [
  'containerd',
  'runc',
  'containernetworking-plugins',
  'iptables',
  'conntrack',
  'iproute2',
  'mount',
  'procps',
  // Second opinions and faults.
  'openssl',
  'strace',
  // A static program that waits and reaps: the pause container of pods, and the pod of the tests.
  'catatonit',
  // Node is linked with it.
  'libstdc++6',
  // One test boots it as PID 1.
  'systemd',
  'systemd-sysv',
  'dbus',
];

/** A role and a cloud-config of manifests are applied there. */
const more = ['ansible-core', 'cloud-init', 'curl', 'dnf', 'python3-apt'];

const disk = { what: 'the disk of a node', packages, more };

export const nodeImage = `kube-cert-recovery-node:${rootIdentity(disk)}`;

/** The tar archive of the disk; made when it is not in the cache. */
export const nodeRoot = (progress: Progress): Promise<string> => debianRoot(disk, progress);

/** Brings the image into the Docker daemon. */
export async function ensureNodeImage(progress: Progress): Promise<void> {
  const client = await getContainerRuntimeClient();
  if (await client.image.exists(ImageName.fromString(nodeImage))) return;
  const archive = await nodeRoot(progress);
  await progress.during('importing the disk of a node into Docker', async () => {
    const [repo, tag] = nodeImage.split(':') as [string, string];
    const { dockerode } = client.container;
    const answer = await dockerode.importImage(createReadStream(archive), { repo, tag });
    await new Promise((resolve, reject) => {
      answer.on('end', resolve).on('error', reject).resume();
    });
  });
}
