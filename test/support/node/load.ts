// People and programs at work on a machine while its certificates change: kubectl reads, writes, watches and follows
// logs in a loop, each call with the credentials that its kubeconfig names at that moment. A call that fails is made once
// more, as clients do; what fails twice is a fault.
//
// Behind a load balancer each attempt goes to the next API server whose /readyz says so: one that has just started answers
// before it knows who may do what. What goes on to a kubelet has no other one: it is asked again after five seconds, in
// which a kubelet that is restarted comes back; everything else after two, for an election of etcd's is one for every API
// server. A watch that was cut is set up again elsewhere, and that is its second attempt.
import { eventually } from '../eventually.ts';
import type { Cluster } from './cluster.ts';
import type { Node } from './node.ts';

export interface Load {
  /** Ends it. The answer: how many calls of each kind were made, those that needed a second attempt, and failed twice. */
  stop(): Promise<LoadReport>;
}

export interface LoadReport {
  readonly calls: Readonly<Record<string, number>>;
  readonly retried: readonly string[];
  readonly failed: readonly string[];
}

const directory = '/var/lib/machine/load';
/** `logs` goes from the API server to the kubelet; a watch must bring what is written meanwhile. */
const kinds = ['get', 'write', 'watch', 'logs', 'proxy'] as const;

const script = (node: Node, kubeconfig: string, servers: readonly string[]): string => `
export KUBECONFIG=${kubeconfig}
servers='${servers.join(' ')}'
server= patience=20
kubectl() { timeout $patience /usr/bin/env kubectl \${server:+--server=$server} "$@"; }
ready() {
  printf 'GET /readyz HTTP/1.0\\r\\n\\r\\n' | timeout 3 openssl s_client -quiet -verify_return_error \\
    -CAfile /etc/kubernetes/pki/ca.crt -connect \${server#https://} 2> /dev/null | head -1 | grep -q ' 200'
}
rotate() { server=\${servers%% *} servers="\${servers#* } \${servers%% *}"; }
# The next one that is ready, or else whichever; without any it stays that of the kubeconfig.
next() {
  [ -n "$servers" ] || return
  for each in $servers; do rotate; ready && return; done
  rotate
}
get() { kubectl get nodes ${node.name} -o name; }
write() { kubectl annotate configmap load --overwrite "moment=$(date +%s%N)" -o name && echo >> ${directory}/written; }
logs() { kubectl logs --namespace=kube-system etcd-${node.name} --tail=1; }
proxy() { kubectl get --raw /api/v1/nodes/${node.name}/proxy/healthz; }
# The first line of each connection is the present state, the others are news; there are none while writes, too, wait for
# servers that do not answer.
watch() {
  end=$(($(date +%s) + 15)) connections=0 misses=0 written=$(wc -l < ${directory}/written)
  : > ${directory}/watched
  while patience=$((end - $(date +%s))); [ $patience -gt 0 ]; do
    before=$(wc -l < ${directory}/watched)
    kubectl get configmap load --watch -o name >> ${directory}/watched
    [ $? = 124 ] && { connections=$((connections + 1)); break; }
    if [ $(wc -l < ${directory}/watched) -gt $before ]; then misses=1 connections=$((connections + 1)); else misses=$((misses + 1)); fi
    [ $misses -gt 1 ] && { echo 'was not set up again'; return 1; } >&2
    echo "retried watch $(date +%T) $(head -c 300 ${directory}/watch.err | tr '\\n' ' ')" >&3
    next
  done
  [ $(wc -l < ${directory}/watched) -gt $connections ] || [ $(wc -l < ${directory}/written) -le $((written + 1)) ]
}
once_more() {
  [ $1 = watch ] && [ -n "$servers" ] && return 1
  next
  case $1 in logs | proxy) [ -n "$servers" ] && sleep 5 ;; *) [ -n "$servers" ] && sleep 2 ;; esac
  $1 > ${directory}/$1.out 2> ${directory}/$1.err
}
loop() {
  exec 3>&1
  while [ ! -e ${directory}/stop ]; do
    next
    if $1 > ${directory}/$1.out 2> ${directory}/$1.err; then echo "made $1"
    else
      first=$(head -c 300 ${directory}/$1.err | tr '\\n' ' ')
      if once_more $1; then echo "made $1"; echo "retried $1 $(date +%T) $first"
      else echo "failed $1 $(date +%T) $first, $(head -c 300 ${directory}/$1.err | tr '\\n' ' ')"; fi
    fi
    sleep 0.5
  done
}
for kind in ${kinds.join(' ')}; do loop $kind & done
wait
echo ended
`;

/**
 * `kubeconfig`: on the machine, of a user who may do anything. `servers`: of the API, behind a load balancer; else the one of
 * the kubeconfig.
 */
export async function startLoad(node: Node, kubeconfig: string, servers: readonly string[] = []): Promise<Load> {
  await node.sh(`rm -rf ${directory}; mkdir ${directory}; : > ${directory}/written
    KUBECONFIG=${kubeconfig} kubectl create configmap load --dry-run=client -o yaml | KUBECONFIG=${kubeconfig} kubectl apply -f -
    cat > ${directory}/run <<'END'\n${script(node, kubeconfig, servers)}\nEND
    nohup sh ${directory}/run > ${directory}/log 2>&1 &`);
  const report = async (): Promise<LoadReport> => {
    const lines = (await node.read(`${directory}/log`)).split('\n');
    const of = (word: string): string[] => lines.filter((line) => line.startsWith(`${word} `));
    const calls = Object.fromEntries(
      kinds.map((kind) => [kind, of('made').filter((line) => line === `made ${kind}`).length]),
    );
    return { calls, retried: of('retried'), failed: of('failed') };
  };
  await eventually(
    async () => {
      const { calls, failed } = await report();
      const idle = kinds.filter((kind) => calls[kind] === 0);
      if (idle.length > 0) throw new Error(`No call yet: ${idle.join(', ')}; ${failed.join('; ')}`);
    },
    { everyMs: 500 },
  );
  return {
    async stop() {
      await node.sh(`touch ${directory}/stop`);
      await eventually(() => node.sh(`grep -q '^ended$' ${directory}/log`), { everyMs: 500 });
      return report();
    },
  };
}

interface PodList {
  readonly items: readonly {
    readonly metadata: { readonly name: string };
    readonly status: {
      readonly containerStatuses?: readonly {
        readonly name: string;
        readonly restartCount: number;
        readonly containerID?: string;
      }[];
    };
  }[];
}

/** Every container of the control plane, and the kubelet: another value means that one was started again. */
export async function runningOn(cluster: Cluster): Promise<Readonly<Record<string, string>>> {
  const { body } = await cluster.api('/api/v1/namespaces/kube-system/pods');
  const containers = (body as PodList).items.flatMap(({ metadata, status: { containerStatuses = [] } }) =>
    containerStatuses.map((one) => [`${metadata.name} ${one.name}`, `${one.restartCount} ${one.containerID}`] as const),
  );
  if (containers.length < 7) throw new Error(`The control plane is not whole: ${JSON.stringify(containers)}`);
  return { ...Object.fromEntries(containers), kubelet: (await cluster.node.sh('pgrep -x kubelet')).trim() };
}
