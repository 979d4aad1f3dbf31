// Our container in a static pod of a machine, and directories of the machine that it mounts. Pure.
import { timesyncdDirectory } from '../host/clock-synchronised.ts';
import type { SecurityLabel } from './container.ts';

/** Container name, and prefix of the volumes that we add: both identify our additions. */
export const containerName = 'kube-cert-recovery';

export interface Named {
  readonly name: string;
  readonly [field: string]: unknown;
}

export interface Mounted {
  readonly volume: Named;
  readonly mount: Named;
}

const fromField = (name: string, fieldPath: string) => ({ name, valueFrom: { fieldRef: { fieldPath } } });

interface OwnContainer {
  /** Default: name of the program. */
  readonly name?: string;
  readonly image: string;
  readonly args: readonly string[];
  /** Port of its health probes on the loopback address of the machine. */
  readonly healthPort: number;
  readonly volumeMounts: readonly Named[];
  /** Label where SELinux is on. */
  readonly seLinux?: SecurityLabel | undefined;
}

export function ownContainer({ name = containerName, healthPort, seLinux, ...told }: OwnContainer) {
  const probe = { httpGet: { host: '127.0.0.1', port: healthPort, path: '/livez', scheme: 'HTTP' } };
  return {
    name,
    image: told.image,
    // A machine that comes back may reach no registry.
    imagePullPolicy: 'IfNotPresent',
    args: told.args,
    env: [
      fromField('NODE_NAME', 'spec.nodeName'),
      fromField('POD_NAME', 'metadata.name'),
      fromField('POD_NAMESPACE', 'metadata.namespace'),
    ],
    livenessProbe: { ...probe, initialDelaySeconds: 30, periodSeconds: 30, timeoutSeconds: 15, failureThreshold: 4 },
    resources: ownResources,
    // Certificates and keys on a control-plane node belong to root; writing one's own files needs no capability.
    securityContext: { runAsUser: 0, runAsGroup: 0, ...leastPrivileges, ...(seLinux && { seLinuxOptions: seLinux }) },
    terminationMessagePolicy: 'FallbackToLogsOnError',
    volumeMounts: told.volumeMounts,
  };
}

export const ownResources = { requests: { cpu: '10m', memory: '100Mi' }, limits: { memory: '250Mi' } };

export const leastPrivileges = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
  seccompProfile: { type: 'RuntimeDefault' },
};

/**
 * Shows a container that signs or approves whether the clock is right. No pod waits for it: the directory is created
 * where another service than systemd-timesyncd keeps the time.
 */
export const clockOfMachine = hostPath('clock', timesyncdDirectory, { readOnly: true, type: 'DirectoryOrCreate' });

/** `suffix`: appended to our volume name. */
export function hostPath(
  suffix: string,
  path: string,
  { readOnly, type = 'Directory' }: { readonly readOnly: boolean; readonly type?: 'Directory' | 'DirectoryOrCreate' },
): Mounted {
  const name = suffix === '' ? containerName : `${containerName}-${suffix}`;
  return {
    volume: { name, hostPath: { path, type } },
    mount: { name, mountPath: path, ...(readOnly && { readOnly: true }) },
  };
}
