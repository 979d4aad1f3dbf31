// Which expected nodes have had their first certificate, in a ConfigMap that `init` makes: "once" must hold for every
// approver, after a restart, and after the API has forgotten the request, an hour later. Neither a node nor the bootstrap
// identity can write it; approvers may get and update this one object. It is written before the approval, so that a
// process that dies in between approves too little and not too much; the request itself can then still be approved.
import { objectPath } from '../kube/objects.ts';
import { firstApprovalsName } from '../bootstrap-identity.ts';
import { isCode, RecoveryError } from '../errors.ts';
import type { ConfigMap } from '../kube/kube.ts';
import type { ApproverOptions } from './settings.ts';

export interface FirstApproval {
  /** The entry as it stands there. */
  readonly text: string;
  /** Of the request; undefined: the entry cannot be read. */
  readonly uid?: string;
  readonly at?: Date;
}

type Entries = Pick<ConfigMap, 'metadata' | 'data'>;

type FirstApprovalsOptions = Pick<ApproverOptions, 'connection' | 'namespace' | 'signal'>;

/** `<time> <uid of the request>` */
export function parseFirstApproval(text: string): FirstApproval {
  const [, time = '', uid = ''] = /^(\S+) (\S+)$/.exec(text) ?? [];
  const at = new Date(time);
  return Number.isNaN(at.getTime()) ? { text } : { text, uid, at };
}

export class FirstApprovals {
  readonly #options: FirstApprovalsOptions;

  constructor(options: FirstApprovalsOptions) {
    this.#options = options;
  }

  /** Throws KubeNotFound and KubeForbidden with what to do, and what else the API refuses. */
  async of(node: string): Promise<FirstApproval | undefined> {
    const text = entriesOf(await this.#read())[node];
    return text === undefined ? undefined : parseFirstApproval(text);
  }

  /** `conflict`: it was written by another since `seen` was read. */
  async note(
    node: string,
    { uid, at, seen }: { readonly uid: string; readonly at: Date; readonly seen: FirstApproval | undefined },
  ): Promise<'noted' | 'conflict'> {
    const found = await this.#read();
    const entries = entriesOf(found);
    if (entries[node] !== seen?.text) return 'conflict';
    if (seen?.uid === uid) return 'noted';
    // Without a resourceVersion a PUT is unconditional.
    if (!found.metadata?.resourceVersion)
      throw new RecoveryError('KubeRejected', `${this.#what} has no resourceVersion`);
    const body = { ...found, data: { ...entries, [node]: `${at.toISOString()} ${uid}` } };
    try {
      await this.#options.connection.request({ method: 'PUT', path: this.#path, body, signal: this.#options.signal });
      return 'noted';
    } catch (err) {
      if (isCode(err, 'KubeConflict')) return 'conflict';
      throw err;
    }
  }

  async #read(): Promise<Entries> {
    const { connection, signal } = this.#options;
    try {
      return await connection.request<Entries>({ method: 'GET', path: this.#path, signal });
    } catch (err) {
      if (!isCode(err, 'KubeNotFound', 'KubeForbidden')) throw err;
      const state = err.code === 'KubeNotFound' ? 'is not there' : 'may not be read';
      const message = `Cannot tell whether an expected node has had its certificate: ${this.#what} ${state}; run "kube-cert-recovery init" again, which makes it`;
      throw new RecoveryError(err.code, message, { cause: err });
    }
  }

  get #what(): string {
    return `ConfigMap "${this.#options.namespace}/${firstApprovalsName}"`;
  }

  get #path(): string {
    return objectPath({ kind: 'configMap', namespace: this.#options.namespace, name: firstApprovalsName });
  }
}

const entriesOf = ({ data }: Entries): Readonly<Record<string, string>> => data ?? {};
