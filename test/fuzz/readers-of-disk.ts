// Readers of a disk, /run and /proc: files of others and of ours, command lines, units, output of programs.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseRecord, recordText } from '../../lib/adopt/record.ts';
import { checkNodeAddresses } from '../../lib/config/address-settings.ts';
import { parseConfig, parseToolConfig } from '../../lib/config/load.ts';
import { realDisk } from '../../lib/disk/disk.ts';
import { placeOf } from '../../lib/host/mounts.ts';
import { argvOf, bootId, startOf } from '../../lib/host/proc.ts';
import { RunState } from '../../lib/host/state.ts';
import { isOfSession, stateIn, unitOf } from '../../lib/host/systemd.ts';
import { parseGoDuration } from '../../lib/inventory/discover/certificate-validity.ts';
import { argumentsOf } from '../../lib/inventory/discover/component-arguments.ts';
import { valuesIn, valuesOfVariables, withConfiguration } from '../../lib/inventory/discover/component-settings.ts';
import {
  clusterDomainOf,
  commandLineOf,
  containersOf,
  electsLeader,
  flagInEnv,
  flagsOf,
  kubeconfigOf,
  kubeletConfigurationOf,
  minorVersionOf,
} from '../../lib/inventory/discover/documents.ts';
import { secondManifests } from '../../lib/inventory/discover/pod-manifests.ts';
import { environmentFile, serviceUnit, unitsNamedBy, withVariables } from '../../lib/inventory/discover/unit-files.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { onlyEntries, readKubeconfigView } from '../../lib/kubeconfig/document.ts';
import { readKubeconfig } from '../../lib/kubeconfig/credentials.ts';
import { createLog } from '../../lib/log.ts';
import { shellWord } from '../../lib/next-command.ts';
import { leadingCertificate, parseCertificates, wholeCertificates } from '../../lib/pki/certificate.ts';
import { issuedHere } from '../../lib/pki/issued-here.ts';
import { isEncryptedKey, parsePrivateKey } from '../../lib/pki/key.ts';
import { editPem } from '../../lib/pki/pem-edit.ts';
import { otherThanPem } from '../../lib/pki/pem-remains.ts';
import { ownFirst } from '../../lib/pki/signer-certificate.ts';
import { verifyChain } from '../../lib/pki/verify.ts';
import { Markers } from '../../lib/restart/markers.ts';
import { BackupDirectory } from '../../lib/store/backup-directory.ts';
import { parseYaml, yamlText } from '../../lib/yaml.ts';
import { recordIn } from '../support/cluster/adopted-files.ts';
import type { FuzzedReader } from './fuzz.ts';
import { authorityPem, clientPem, kubeconfigYaml, leafKeyPem, manifestYaml, servingPem, unitText } from './seeds.ts';

const mib = 1 << 20;
/** Size that readRegularFile takes (lib/disk/files.ts). */
const largestFile = 4 * mib;
const boot = bootId();

/** Below a directory of this process, which ends with it. */
const directory = mkdtempSync(join(tmpdir(), 'fuzzed-'));
process.once('exit', () => rmSync(directory, { recursive: true, force: true }));

function placed(name: string, bytes: Buffer): string {
  const path = join(directory, name);
  mkdirSync(join(path, '..'), { recursive: true });
  writeFileSync(path, bytes);
  return path;
}

const lines = (...all: readonly string[]): string => `${all.join('\n')}\n`;
const textOf = (bytes: Buffer): string => bytes.toString('utf8');
const known = {
  local: 'https://192.0.2.10:6443',
  controlPlane: 'https://api.example.com:6443',
  issued: issuedHere(authorityPem),
};

const configurationYaml = lines(
  'apiVersion: kube-cert-recovery/v1alpha1',
  'kind: Configuration',
  'preset: kubernetes',
  'modes: [regen, syncer]',
  'parameters: { apiServerHostnames: [api.example.com] }',
  'regen: { kubeconfig: /etc/regen.conf, renewBefore: 30d }',
  'syncer: { kubeconfig: /etc/syncer.conf, destinationDir: /certs }',
);

const inputOfText = (text: string): Parameters<typeof parseConfig>[0] => ({
  flags: {},
  file: { path: '/c.yaml', text },
  env: {},
  cwd: '/',
  presets: installedPresets,
});

const certificates = (pem: Buffer): unknown => {
  const all = parseCertificates(pem, 'it', 'skipped');
  const [leaf] = all;
  const roots = parseCertificates(Buffer.from(authorityPem), 'seed');
  const at = new Date('2026-01-15T00:00:00Z');
  return [
    all.map(({ facts }) => facts),
    leaf && verifyChain({ leaf, intermediates: all.slice(1), roots, at, usage: 'serverAuth', hostname: 'kubernetes' }),
  ];
};

const mountinfo = lines(
  '36 35 98:0 /mnt1 /mnt/parent rw,noatime master:1 - ext3 /dev/root rw,errors=continue',
  '37 36 98:1 /a\\040b /etc/kubernetes rw - ext4 /dev/sda rw',
);
const cgroup = lines('0::/system.slice/kubelet.service', '1:name=systemd:/user.slice/session-1.scope');
const stat = '42 (kube let) S 1 42 42 0 -1 4194560 100 0 0 0 5 6 0 0 20 0 9 0 12345 1000 200 18446744073709551615';
const commandLine = ['/usr/bin/kubelet', '--config=/c.yaml', '--kubeconfig', '/k', '-v=2', '--kubeconfig=/l'].join(
  '\0',
);
const adoption = recordText(recordIn('/r'));
const marker = JSON.stringify({
  boot,
  state: 'written',
  running: [{ pid: 42, started: 7 }],
  until: '2026-06-01T00:00:00Z',
});
const script = 'A=/etc; set -eu; if true; then B=$A/x; fi\nexec kube-apiserver --tls-cert-file="${B:-y}" "$@" # end\n';

export const readersOfDisk: readonly FuzzedReader[] = [
  {
    name: 'kubeconfig',
    form: 'yaml',
    seeds: [kubeconfigYaml],
    largest: largestFile,
    read: (bytes) => readKubeconfigView('/k', bytes, known),
  },
  {
    name: 'kubeconfig, sight',
    form: 'yaml',
    seeds: [kubeconfigYaml],
    largest: largestFile,
    read: (bytes) => [kubeconfigOf(yamlText(bytes), known), onlyEntries(bytes)],
  },
  {
    name: 'kubeconfig of a mode',
    isOurs: true,
    form: 'yaml',
    seeds: [kubeconfigYaml],
    largest: largestFile,
    read: (bytes) => readKubeconfig(placed('mode.conf', bytes)),
  },
  {
    name: 'static-pod manifest',
    form: 'yaml',
    seeds: [manifestYaml],
    largest: largestFile,
    read: (bytes) => flagsOf(yamlText(bytes), 'kube-apiserver'),
  },
  {
    name: 'static-pod manifest, command',
    form: 'yaml',
    seeds: [manifestYaml],
    largest: largestFile,
    read: (bytes) => commandLineOf(yamlText(bytes), { component: 'kube-controller-manager', source: 'it' }),
  },
  {
    name: 'static-pod manifest, image',
    form: 'yaml',
    seeds: [manifestYaml],
    largest: largestFile,
    read: (bytes) => minorVersionOf(yamlText(bytes), 'kube-apiserver'),
  },
  {
    name: 'static-pod manifest, Lease',
    form: 'yaml',
    seeds: [manifestYaml],
    largest: largestFile,
    read: (bytes) => [electsLeader(yamlText(bytes), 'other'), containersOf(yamlText(bytes)).length],
  },
  {
    name: 'static-pod manifest, twice',
    form: 'yaml',
    seeds: [manifestYaml],
    largest: largestFile,
    read: (bytes) => secondManifests(new Map([['/a', yamlText(bytes)]])),
  },
  {
    name: 'configuration of the kubelet',
    form: 'yaml',
    seeds: [
      lines(
        'apiVersion: kubelet.config.k8s.io/v1beta1',
        'kind: KubeletConfiguration',
        'clusterDomain: cluster.local',
        'tlsCertFile: /a',
        'authentication: { x509: { clientCAFile: /etc/kubernetes/pki/ca.crt } }',
      ),
    ],
    largest: largestFile,
    read: (bytes) => [kubeletConfigurationOf(yamlText(bytes)), clusterDomainOf(yamlText(bytes))],
  },
  {
    name: 'configuration that a flag names',
    form: 'yaml',
    seeds: [
      lines(
        'kind: KubeletConfiguration',
        'tlsCertFile: /a',
        'tlsPrivateKeyFile: /b',
        'authentication: { x509: { clientCAFile: /c } }',
      ),
    ],
    largest: largestFile,
    read: (bytes) =>
      withConfiguration('kubelet', new Map(), { flag: 'config', file: '/c', documents: [yamlText(bytes)] }),
  },
  {
    name: 'flags of kubeadm',
    form: 'text',
    seeds: ['KUBELET_KUBEADM_ARGS="--hostname-override=panda --node-ip=192.0.2.11"\n'],
    largest: largestFile,
    read: (bytes) => [flagInEnv(textOf(bytes), 'hostname-override'), parseGoDuration(textOf(bytes))],
  },
  {
    name: 'configuration',
    isOurs: true,
    form: 'yaml',
    seeds: [configurationYaml],
    largest: largestFile,
    read: (bytes) => parseConfig(inputOfText(textOf(bytes))).modes.length,
  },
  {
    name: 'configuration of a tool',
    isOurs: true,
    form: 'yaml',
    seeds: [configurationYaml],
    largest: largestFile,
    read: (bytes) => Object.keys(parseToolConfig(inputOfText(textOf(bytes)))),
  },
  {
    name: 'addresses by node',
    isOurs: true,
    form: 'yaml',
    seeds: ['panda: [192.0.2.11, panda]\ntiger: [192.0.2.12]\n'],
    largest: largestFile,
    read: (bytes) => checkNodeAddresses(parseYaml(yamlText(bytes), 'ours')),
  },
  {
    name: 'process',
    form: 'text',
    seeds: [commandLine],
    largest: 2 * mib,
    read: (bytes) => {
      placed('42/cmdline', bytes);
      const argv = argvOf(42, directory);
      return [valuesIn(argv), argumentsOf('kubelet', argv)];
    },
  },
  {
    name: 'state of a process',
    form: 'text',
    seeds: [stat],
    largest: mib,
    read: (bytes) => (placed('42/stat', bytes), startOf(42, directory)),
  },
  {
    name: 'environ of a process',
    form: 'text',
    seeds: ['ETCD_CERT_FILE=/a\nETCD_NAME=x\n'],
    largest: 131_072,
    read: (bytes) => valuesOfVariables('etcd', environmentFile(textOf(bytes))),
  },
  {
    name: 'mounts and control groups',
    form: 'text',
    seeds: [mountinfo, cgroup],
    largest: 524_288,
    read: (bytes) => [
      placeOf(textOf(bytes), '/etc/kubernetes/pki'),
      unitOf(textOf(bytes)),
      isOfSession(textOf(bytes)),
      stateIn(textOf(bytes)),
    ],
  },
  {
    name: 'systemd unit',
    isOurs: true,
    form: 'text',
    seeds: [unitText],
    largest: largestFile,
    read: (bytes) => {
      const unit = serviceUnit('kubelet@a.service', [textOf(bytes), textOf(bytes)]);
      return [unitsNamedBy(textOf(bytes)), unit && withVariables(unit.command, unit.environment)];
    },
  },
  {
    name: 'shell script',
    form: 'text',
    seeds: [script],
    largest: mib,
    read: (bytes) => argumentsOf('kube-apiserver', ['sh', '-c', textOf(bytes), 'x', '--a=b'], new Map([['C', 'd']])),
  },
  {
    name: 'certificates',
    form: 'pem',
    seeds: [servingPem + authorityPem, clientPem],
    largest: largestFile,
    read: certificates,
  },
  {
    name: 'damaged certificates',
    form: 'pem',
    seeds: [servingPem + authorityPem],
    largest: largestFile,
    read: (bytes) => [wholeCertificates(bytes).length, leadingCertificate(bytes)?.facts],
  },
  {
    name: 'private key',
    form: 'pem',
    seeds: [leafKeyPem, servingPem + leafKeyPem],
    largest: largestFile,
    read: (bytes) => (isEncryptedKey(bytes), ownFirst([], bytes), parsePrivateKey(bytes, 'it').type),
  },
  {
    name: 'what is no PEM',
    form: 'pem',
    seeds: [servingPem, leafKeyPem],
    largest: largestFile,
    read: (bytes) => otherThanPem(bytes, ['certificate', 'key']),
  },
  {
    name: 'PEM that is edited',
    form: 'pem',
    seeds: [servingPem + authorityPem],
    largest: largestFile,
    read: (bytes) => editPem(bytes, 'it', ({ line }) => (line === 1 ? 'kept' : 'removed')),
  },
  {
    name: 'restart marker',
    form: 'json',
    seeds: [marker],
    largest: largestFile,
    read: (bytes) => (
      placed('restart-kubelet', bytes),
      new Markers({ state: new RunState(directory), onFailed: () => undefined }).look('kubelet')
    ),
  },
  {
    name: 'value of an earlier run',
    form: 'json',
    seeds: [JSON.stringify({ boot, at: '2026-11-25T08:00:00.000Z', value: 'the text' })],
    largest: largestFile,
    read: (bytes) => (placed('note', bytes), new RunState(directory).getText('note')),
  },
  {
    name: 'record of an adoption',
    isOurs: true,
    form: 'json',
    seeds: [adoption],
    largest: largestFile,
    read: (bytes) => parseRecord(textOf(bytes), '/r/own'),
  },
  {
    name: 'backup',
    form: 'pem',
    seeds: [servingPem],
    largest: largestFile,
    read: (bytes) => {
      placed('backup/tls.crt/000001/cert', bytes);
      return new BackupDirectory({
        disk: realDisk,
        backupDir: join(directory, 'backup'),
        path: 'tls.crt',
        isUsable: () => true,
      }).newest();
    },
  },
  {
    name: 'names in a line of the log',
    form: 'text',
    seeds: ['csr-1 "quoted"'],
    largest: 65_536,
    read: (bytes) => {
      const written: string[] = [];
      createLog({ format: 'text', write: (line) => written.push(line) }).warn('csr.pending', {
        csr: textOf(bytes),
        err: textOf(bytes),
      });
      return [written, shellWord(textOf(bytes))];
    },
  },
];
