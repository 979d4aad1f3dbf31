// The audit log of a test API server: who asked for what by which right, and what the answer was.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** One answered request. A watch counts from its first answer. */
export interface AuditEvent {
  readonly user: string;
  readonly userAgent: string;
  /** As RBAC calls it. */
  readonly verb: string;
  readonly group: string;
  /** With its subresource; empty where the request was for no resource. */
  readonly resource: string;
  readonly namespace: string | undefined;
  /** Of a list or watch: the one that its field selector names. */
  readonly name: string | undefined;
  readonly path: string;
  readonly code: number;
  /** What the authoriser said: which binding allows it. */
  readonly reason: string;
}

const place = (directory: string) => ({
  policyFile: join(directory, 'audit-policy.yaml'),
  logFile: join(directory, 'logs', 'audit.log'),
});

/** What ServiceAccounts ask is noted, and nothing of what is in it. */
export async function writeAuditPolicy(directory: string): Promise<ReturnType<typeof place>> {
  const policy = {
    apiVersion: 'audit.k8s.io/v1',
    kind: 'Policy',
    omitStages: ['RequestReceived'],
    rules: [{ level: 'Metadata', userGroups: ['system:serviceaccounts'] }, { level: 'None' }],
  };
  const { policyFile, logFile } = place(directory);
  await writeFile(policyFile, JSON.stringify(policy));
  return { policyFile, logFile };
}

interface Entry {
  readonly user?: { readonly username?: string };
  readonly userAgent?: string;
  readonly verb?: string;
  readonly requestURI?: string;
  readonly objectRef?: {
    readonly apiGroup?: string;
    readonly resource?: string;
    readonly subresource?: string;
    readonly namespace?: string;
    readonly name?: string;
  };
  readonly responseStatus?: { readonly code?: number };
  readonly annotations?: Readonly<Record<string, string>>;
}

export async function readAudit(directory: string): Promise<AuditEvent[]> {
  const text = await readFile(place(directory).logFile, 'utf8');
  // The last line may be in the middle of being written.
  const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n');
  return lines.filter((line) => line !== '').map((line) => eventOf(JSON.parse(line) as Entry));
}

function eventOf({ user, userAgent, verb, requestURI, objectRef, responseStatus, annotations }: Entry): AuditEvent {
  const { apiGroup = '', resource = '', subresource, namespace, name } = objectRef ?? {};
  return {
    user: user?.username ?? '',
    userAgent: userAgent ?? '',
    verb: verb ?? '',
    group: apiGroup,
    resource: subresource === undefined ? resource : `${resource}/${subresource}`,
    namespace,
    name,
    path: requestURI ?? '',
    code: responseStatus?.code ?? 0,
    reason: annotations?.['authorization.k8s.io/reason'] ?? '',
  };
}
