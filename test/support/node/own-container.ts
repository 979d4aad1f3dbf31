// Our container in a static pod: what its manifest says and what it takes.
import { parseYaml } from '../../../lib/yaml.ts';
import { recoveryDirectory } from './adopted.ts';
import type { Node } from './node.ts';
import type { Pod } from './steps.ts';

interface Resources {
  readonly memory: string;
}
export interface OwnContainer {
  readonly name: string;
  readonly imagePullPolicy: string;
  readonly resources: { readonly requests: Resources; readonly limits: Resources };
}

/** As the manifest of the pod says. */
export async function ownContainer(node: Node, pod: Pod): Promise<OwnContainer> {
  const manifest = parseYaml(await node.read(`/etc/kubernetes/manifests/${pod}.yaml`)) as {
    readonly spec: { readonly containers: readonly OwnContainer[] };
  };
  const own = manifest.spec.containers.find(({ name }) => name === 'kube-cert-recovery');
  if (own === undefined) throw new Error(`Static pod ${pod} of ${node.name} has no container of ours`);
  return own;
}

/** MB (2^20 bytes) of a quantity in Mi. */
export const mebibytes = (quantity: string): number => Number(/^(\d+)Mi$/.exec(quantity)?.[1]);

/** In MB, of its process: resident, of that without files behind it, and the most that ever was resident. */
export async function ownMemory(
  node: Node,
  pod: Pod,
): Promise<{ readonly rss: number; readonly anonymous: number; readonly peak: number }> {
  // The path is put together there: the command line of this shell must not look like that of the program.
  const text = await node.sh(`config=--config=${recoveryDirectory}/${pod}/config
    for process in /proc/[0-9]*; do
      tr '\\0' '\\n' < $process/cmdline 2> /dev/null | grep -qFx -- "$config.yaml" && cat $process/status
    done; true`);
  const mb = (field: string): number => {
    const [one, ...others] = [...text.matchAll(new RegExp(`^${field}:\\s+(\\d+) kB`, 'gm'))];
    if (one === undefined || others.length > 0) throw new Error(`Not one process of ours in ${pod}: ${text}`);
    return Number(one[1]) / 1024;
  };
  return { rss: mb('VmRSS'), anonymous: mb('RssAnon'), peak: mb('VmHWM') };
}
