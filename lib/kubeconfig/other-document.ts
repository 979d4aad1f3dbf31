// A file that has the name of a kubeconfig and is another document: systemd services read their environment from
// /etc/kubernetes/scheduler.conf, a static pod its KubeSchedulerConfiguration. Such a file is nobody's damaged kubeconfig.
// Pure.
import { isMapping, yamlMapping } from '../yaml.ts';

/** Fields and entries of a kubeconfig (k8s.io/client-go tools/clientcmd/api/v1), one of which even a torn one still has. */
const ownWords =
  /clusters|contexts|users|current-context|certificate-authority|client-certificate|client-key|kind: *Config\b/;

/** Lines of an EnvironmentFile (systemd.exec(5)). */
const assignment = /^\s*(export\s+)?[A-Za-z_]\w*=/;
const comment = /^\s*([#;]|$)/;

/** Names the document with its article; undefined for a kubeconfig, for a damaged one, and for an empty text. */
export function otherDocument(text: string): string | undefined {
  const lines = text.split('\n').filter((line) => !comment.test(line));
  if (lines.length > 0 && lines.every((line) => assignment.test(line))) return 'a file of environment variables';
  if (ownWords.test(text)) return undefined;
  const value = yamlMapping(text);
  if (!isMapping(value) || Object.keys(value).length === 0) return undefined;
  const { kind, apiVersion } = value;
  // The first line of a torn kubeconfig.
  if (kind === undefined && apiVersion === 'v1') return undefined;
  return typeof kind === 'string' && /^[A-Za-z]{1,63}$/.test(kind)
    ? `a document of kind ${kind}`
    : 'another YAML document';
}
