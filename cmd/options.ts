// The flags, with the names that static pods use already (--kubeconfig, --namespace, --destination-dir,
// --tls-server-name-override). Nothing has a default here: what was not typed must not beat the configuration file.
import { Option } from 'commander';
import type { Command } from 'commander';

/** Every value of a flag that may be given several times. */
const each = (value: string, before: readonly string[] | undefined): readonly string[] => [...(before ?? []), value];

function longFlags(command: Command): string[] {
  return [...command.options.flatMap(({ long }) => long ?? []), ...command.commands.flatMap(longFlags)];
}

/**
 * Go programs also take `-v=2` and `--v=2`, and static pods are full of them; commander would read the value "=2".
 * An unknown flag loses its value, so that its name alone is compared with the known ones for a suggestion.
 * Arguments behind `--` stay as they are.
 */
export function plainArguments(argv: readonly string[], root: Command): string[] {
  const known = new Set([...longFlags(root), '--help', '--version']);
  const end = argv.indexOf('--');
  return argv.map((argument, at) => {
    if (end !== -1 && at > end) return argument;
    const plain = argument
      .replace(/^-([nvo])=/, '-$1')
      .replace(/^--v(?==|$)/, '--log-level')
      .replace(/^--logging-format(?==|$)/, '--log-format');
    const flag = /^(--[^=]+)=/s.exec(plain)?.[1];
    return flag === undefined || known.has(flag) ? plain : flag;
  });
}

/** Of the root, and by it of every command. */
export function addSharedOptions(command: Command): Command {
  return command
    .option('--config <file>', 'configuration file (YAML)')
    .option('--preset <name>', 'inventory that comes with the program')
    .option('-n, --namespace <name>', 'namespace of the objects, in place of that of the inventory')
    .addOption(
      new Option(
        '--parameter <name=value,...>',
        'names and addresses for a parameter of the inventory; repeatable',
      ).argParser(each),
    )
    .addOption(
      new Option('--directory <name=path>', 'path for a directory of the inventory; repeatable').argParser(each),
    )
    .option('--kubeconfig <file>', 'credential of every mode that has none of its own (env KUBECONFIG)')
    .option('--destination-dir <path>', 'directory below which the syncer writes')
    .option('--tls-server-name-override <name>', 'name asked for in TLS handshakes, in place of what kubeconfigs say')
    .option(
      '--recovery-server-name <name>',
      'name of the certificate that outlives all others (default: localhost-recovery)',
    )
    .option('--api-server-address <host:port>', 'where proofs meet the API server (default: server of the kubeconfig)')
    .option('--dry-run', 'write nothing, say what would be written')
    .option(
      '-v, --log-level <level>',
      'debug, info, warn or error, or a number as components of Kubernetes take it (default: info)',
    )
    .option('--log-format <format>', 'json or text (default: json; also --logging-format)');
}

/** Only where modes run. */
export function addRunOptions(command: Command): Command {
  return command
    .option('--mode <modes>', 'regen, syncer, approver, or several with commas between them')
    .option('--once', 'make one full pass, then exit')
    .option('--rows <which>', 'which artefacts regen looks at: all, disk (no API is needed) or api (default: all)')
    .option('--restart', 'with --once: restart components of this host that must read renewed files again; prove use')
    .addOption(
      new Option('--component <name,...>', 'write only what these components read; repeatable').argParser(each),
    )
    .option('--regen-kubeconfig <file>', 'credential of mode regen')
    .option('--syncer-kubeconfig <file>', 'credential of mode syncer')
    .option('--approver-kubeconfig <file>', 'credential of mode approver')
    .option('--caches-synced-file <file>', 'file that the syncer makes once it has looked at every object')
    .option('--listen <address>', "taken from OpenShift's recovery containers, and unused: they serve nothing there")
    .option(
      '--health-probe-bind-address <address>',
      'where /livez, /readyz, /healthz and /metrics are served ("0": nowhere)',
    );
}

/** Of every command that installs. */
export function addDirectoryOption(command: Command): Command {
  return command.option(
    '--out <directory>',
    'where certificates, kubeconfigs and credentials lie (default: /etc/kubernetes/kube-cert-recovery)',
  );
}

/** Of init host. */
export function addHostOption(command: Command): Command {
  return command.option('--executable <file>', 'program that the units start (default: this one)');
}

/** Of init adopt. */
export function addAdoptOptions(command: Command): Command {
  return command
    .option('--image <reference>', 'image of this program, as the container runtime of this machine knows it')
    .option('--repair', 'add again to manifests what somebody has written anew without it, as the last adoption did');
}

/** Of restore. */
export function addRestoreOption(command: Command): Command {
  return command
    .option('--generation <number>', 'which copy is put back (default: the youngest)')
    .option('--force', 'put back an expired copy although what is there is valid');
}

/** Of init, and by it of init render. */
export function addInstallOptions(command: Command): Command {
  return addDirectoryOption(command)
    .option('--server <url>', 'address of the API server for kubeconfigs (default: https://localhost:6443)')
    .option('-o, --output <format>', 'text or json (default: text)');
}
