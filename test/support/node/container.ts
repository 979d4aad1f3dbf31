// The container that plays a machine: every capability that a kubelet needs and none that a sandbox may lack (so not
// --privileged, which includes SYS_RESOURCE), disks that survive a power cycle, an address that stays.
import { GenericContainer, PullPolicy, Wait } from 'testcontainers';
import { nodeImage } from './image.ts';
import { runLabels } from './test-run.ts';
import type { Workshop } from './workshop.ts';

// Those of a machine that Docker 20.10 knows (no BPF, PERFMON, CHECKPOINT_RESTORE), without SYS_RESOURCE.
const capabilities = (
  'AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID IPC_LOCK ' +
  'IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE MKNOD NET_ADMIN NET_BIND_SERVICE NET_BROADCAST NET_RAW ' +
  'SETFCAP SETGID SETPCAP SETUID SYSLOG SYS_ADMIN SYS_BOOT SYS_CHROOT SYS_MODULE SYS_NICE SYS_PACCT SYS_PTRACE ' +
  'SYS_RAWIO SYS_TIME SYS_TTY_CONFIG WAKE_ALARM'
).split(' ');

/** Where the program lies on a node; Node is where its launcher looks for it. */
export const programPath = '/opt/kube-cert-recovery/dist/kube-cert-recovery';

export interface Machine {
  readonly name: string;
  readonly workshop: Workshop;
  readonly network: string;
  readonly address: string;
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

export class NodeContainer extends GenericContainer {
  constructor({ name, workshop, network, address, command, environment }: Machine) {
    super(nodeImage);
    // testcontainers has no methods for these; its own fields are open to a subclass.
    Object.assign(this.hostConfig, {
      CgroupnsMode: 'private',
      DeviceCgroupRules: ['a *:* rwm'],
      Devices: [{ PathOnHost: '/dev/kmsg', PathInContainer: '/dev/kmsg', CgroupPermissions: 'rwm' }],
      MaskedPaths: [],
      ReadonlyPaths: [],
      // An overlay cannot lie on an overlay, and etcd wants a disk.
      Mounts: ['/var/lib/containerd', '/var/lib/kubelet', '/var/lib/etcd'].map((Target) => ({
        Type: 'volume',
        Source: '',
        Target,
      })),
    });
    Object.assign(this.createOpts, {
      StopSignal: 'SIGKILL', // switched off, not shut down
      NetworkingConfig: { EndpointsConfig: { [network]: { IPAMConfig: { IPv4Address: address } } } },
    });
    const { images, program, node, binaries, scripts } = workshop;
    const mounts: [source: string, target: string][] = [
      [images, '/images'],
      [program, '/opt/kube-cert-recovery/dist'],
      [node, '/opt/kube-cert-recovery/node_modules/.bin/node'],
      [`${scripts}/entry.sh`, '/usr/local/bin/machine'],
      [`${scripts}/containerd.toml`, '/etc/containerd/machine.toml'],
      [`${scripts}/bridge.conflist`, '/usr/local/share/machine-cni/10-bridge.conflist'],
      [`${scripts}/units`, '/usr/local/share/machine-units'],
      ...Object.entries(binaries).map(([binary, path]): [string, string] => [path, `/usr/bin/${binary}`]),
    ];
    this.withPullPolicy(PullPolicy.neverPull())
      .withName(`${network}-${name}`)
      .withHostname(name)
      .withNetworkMode(network)
      .withDroppedCapabilities('ALL')
      .withAddedCapabilities(...capabilities)
      .withSecurityOpt('seccomp=unconfined', 'apparmor=unconfined')
      .withTmpFs({ '/run': 'rw,exec', '/tmp': 'rw,exec' })
      .withBindMounts(mounts.map(([source, target]) => ({ source, target, mode: 'ro' })))
      .withLabels(runLabels())
      .withEnvironment({ ...environment })
      .withCommand([...command])
      .withWaitStrategy(Wait.forSuccessfulCommand('true'));
  }
}
