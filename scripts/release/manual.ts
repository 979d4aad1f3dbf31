// Manual page of the program, from its own help. Pure.
import type { Stamp } from '../build-stamp.ts';

/** As roff, for section 8. `help`: what `kube-cert-recovery --help` prints. */
export function manualPage(help: string, { version, builtAt }: Stamp): string {
  return `.TH KUBE-CERT-RECOVERY 8 "${builtAt.slice(0, 10)}" "kube-cert-recovery ${version}"
.SH NAME
kube-cert-recovery \\- certificate recovery for Kubernetes control planes
.SH DESCRIPTION
As root, once on each control-plane node:
.PP
.EX
kube-cert-recovery init host --renew-before=30d
kube-cert-recovery status
.EE
.PP
Nothing is repaired before. "kube-cert-recovery help COMMAND" prints the flags of a command.
.SH HELP
.EX
${asText(help)}
.EE
`;
}

/** A line that begins with a dot or a quote would be a command of roff; a hyphen must stay one that can be copied. */
const asText = (text: string): string =>
  text
    .trimEnd()
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll(/^(?=[.'])/gm, '\\&');
