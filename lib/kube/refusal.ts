// Why an API server has refused a valid request, and the one thing to do about it. A Status has free text, which may
// hold content of a request: only fixed patterns are shown, with the names that they find. Pure.
import type { ErrorCode } from '../errors.ts';

interface Cause {
  /** Pattern whose first group is a name. The source of the message is next to each. */
  readonly pattern: RegExp;
  readonly code: ErrorCode;
  /** Returns the state and the advice. */
  readonly says: (name: string) => string;
}

const exempt = 'exempt the objects of the inventory from it, or remove it';

const causes: readonly Cause[] = [
  {
    pattern: /failed calling webhook "([^"]+)"/, // apiserver pkg/admission/plugin/webhook/errors
    code: 'KubeRejected',
    says: (name) => `admission webhook "${name}" does not answer; ${exempt}`,
  },
  {
    pattern: /admission webhook "([^"]+)" denied/,
    code: 'KubeRejected',
    says: (name) => `admission webhook "${name}" denied the request; ${exempt}`,
  },
  {
    pattern: /ValidatingAdmissionPolicy '([^']+)'/, // apiserver pkg/admission/plugin/policy/validating
    code: 'KubeRejected',
    says: (name) => `ValidatingAdmissionPolicy "${name}" denied the request; ${exempt}`,
  },
  {
    pattern: /exceeded quota: ([a-z0-9.-]+)/, // apiserver pkg/admission/plugin/resourcequota/controller.go
    code: 'KubeRejected',
    says: (name) => `the ResourceQuota "${name}" of its namespace is used up; raise it, or remove what else it counts`,
  },
  {
    pattern: /status unknown for quota: ([a-z0-9.-]+)/,
    code: 'KubeRejected',
    says: (name) =>
      `the ResourceQuota "${name}" of its namespace has not been counted yet; see that kube-controller-manager runs`,
  },
  {
    pattern: /namespace (\S+) because it is being terminated/, // plugin/namespace/lifecycle
    code: 'KubeRejected',
    says: (name) => `namespace "${name}" is being deleted; create it again when it is gone`,
  },
  {
    pattern: /violates PodSecurity "([^"]+)"/, // pod-security-admission
    code: 'KubeRejected',
    says: (name) =>
      `the Pod Security level "${name}" of its namespace denies it; give the namespace a level that allows it`,
  },
  {
    pattern: /field is immutable/, // pkg/apis/core/validation, of a Secret or a ConfigMap, or of a Secret's type
    code: 'KubeRejected',
    says: () => 'it is immutable; delete it, then it is created again',
  },
  {
    pattern: /Apply failed with \d+ conflicts?: conflicts? with "([^"]+)"/, // apimachinery pkg/util/managedfields
    code: 'KubeConflict',
    says: (name) => `the field manager "${name}" has written it too; see that it leaves the object alone`,
  },
  {
    pattern: /the object has been modified/, // apiserver pkg/registry/generic/registry/store.go
    code: 'KubeConflict',
    says: () => 'it has been changed since it was read; it is looked at again, else run this again',
  },
  {
    pattern: /User "([^"]+)" cannot /, // apiserver pkg/endpoints/handlers/responsewriters/errors.go
    code: 'KubeForbidden',
    says: (name) => `user "${name}" lacks the permission; grant it by the init that made this user`,
  },
  {
    pattern: /user not permitted to (approve|sign) requests/, // plugin/pkg/admission/certificates
    code: 'KubeForbidden',
    says: (name) =>
      `the user lacks the permission to ${name} for this signer; grant it by the init that made this user`,
  },
  {
    pattern: /is forbidden: (?!User )/, // apiserver pkg/admission/errors.go: by no plugin named above
    code: 'KubeForbidden',
    says: () => 'an admission plugin of the API server denied it; its reason is in the log of kube-apiserver',
  },
];

/** Undefined for an unknown message. */
export function causeOfRefusal(message: string): (Pick<Cause, 'code'> & { readonly text: string }) | undefined {
  for (const { pattern, code, says } of causes) {
    const found = pattern.exec(message);
    if (found !== null) return { code, text: says(found[1] ?? '') };
  }
  return undefined;
}
