// Writers of the inputs of this program, and limits of how much is read: a writer must not decide how much memory or
// time that takes. Input above a limit is refused or left out, by name. docs/security.md has the same rows.

interface Bound {
  /** Input. */
  readonly what: string;
  readonly writers: string;
  readonly most: Readonly<Record<string, number>>;
}

const kibi = 1024;
const mebi = 1024 * kibi;

export const bounds = {
  request: {
    what: 'CertificateSigningRequests',
    writers: 'who may create them',
    // A kubelet's has about 2500 bytes, labels and field owners included; with an RSA key of 16 384 bits it would have
    // 10 000. Its name is `csr-` and five characters, though the API takes names of any length. It requests the names
    // and addresses of one machine, a few of which could be those of Services: each of those is a read. Some 500 bytes
    // of each request are remembered: a flood of ten minutes.
    most: { bytes: 64 * kibi, 'characters in its name': 1024, names: 100, services: 10, remembered: 20_000 },
  },
  addresses: {
    what: 'addresses in the status of a Node or a Machine',
    writers: 'its kubelet; who may update Nodes, Machines',
    // A machine has a few, and an address or two of each family. A kubelet writes any number.
    most: { addresses: 100, asked: 4 },
  },
  presented: {
    what: 'the chain that a TLS server presents',
    writers: 'who listens at the address',
    // A server may send its certificates in a circle.
    most: { certificates: 10 },
  },
  chain: {
    what: 'certificates of others that are verified',
    writers: 'who shows, serves or stores them',
    // Go checks as many for one answer: CAs of one name multiply the paths to try.
    most: { signatures: 100 },
  },
  record: {
    what: 'the ConfigMap `issued-certificates`',
    writers: 'approvers; who may update ConfigMaps beside it',
    // An object of the API may hold 1 MiB, and the names stand in it twice (metadata.managedFields).
    most: { characters: 700_000 },
  },
  clusterInfo: {
    what: 'the ConfigMap `kube-public/cluster-info`',
    writers: 'who may update it; `regen` of hosts',
    // A CA certificate has one or two kilobytes, kubeadm's kubeconfig three. While one CA replaces another, both are
    // published.
    most: { characters: 65_536, CAs: 10 },
  },
  publicAnswer: {
    what: 'an answer to a worker without a credential',
    writers: 'who has the key of the CA',
    most: { bytes: mebi },
  },
  answer: {
    what: 'any other answer of the API server',
    writers: 'who may write the object, or is the server',
    // etcd takes no object above 1.5 MiB (etcd server/embed/config.go, DefaultMaxRequestBytes), and JSON writes one
    // byte as six at most (`\u003c`): any single object fits. Several may not, see list.ts.
    most: { bytes: 10 * mebi },
  },
  refusal: {
    what: 'what the API server answers instead of a watch',
    writers: 'who is the server, or a proxy before it',
    most: { characters: 65_536 },
  },
  entry: {
    what: 'an entry that the inventory knows, of a Secret or ConfigMap',
    writers: 'who may update the object',
    // A bundle of three hundred CAs has less.
    most: { bytes: 512 * kibi },
  },
  otherEntry: {
    what: 'an entry that it does not know',
    writers: 'who may update the object',
    // Too small to matter.
    most: { bytes: 64 * kibi },
  },
  published: {
    what: 'an object that the syncer writes to disk',
    writers: 'who may update the object',
    // Components read a few, and the API takes a hundred thousand, each of which would be a file.
    most: { keys: 500 },
  },
  file: {
    what: 'a file of the machine',
    writers: 'root; who owns its directory',
    // Certificates, keys, kubeconfigs and manifests are kilobytes.
    most: { bytes: 4 * mebi },
  },
  process: {
    what: 'command line and environment of a process',
    writers: 'users of the machine',
    // Any user may start a thousand processes with two megabytes in each.
    most: { bytes: 128 * kibi },
  },
  yaml: {
    what: 'a kubeconfig, a manifest',
    writers: 'who may write the file or the object',
    // Parsing takes some ten microseconds for each character that may begin a value: at the limit it takes 50 ms. A
    // manifest has hundreds, a kubeconfig of many clusters a thousand. Some readers look at a text several times, which
    // takes 50 ms for 1 MiB; the certificates of eighty clusters have half of that.
    most: { values: 3000, characters: 512 * kibi, levels: 100 },
  },
  configuration: {
    what: 'the configuration, the kubeconfig of a mode',
    writers: 'root',
    // An inventory of hundreds of entries, addresses of thousands of nodes, an administrator's kubeconfig.
    most: { values: 60_000, characters: 4 * mebi },
  },
  pem: {
    what: 'certificates and keys in one text',
    writers: 'who may write the file or the object',
    // The trust bundle of a system has 150 certificates; to read one takes a tenth of a millisecond. A key of RSA with
    // 16 384 bits has nine kilobytes, and OpenSSL takes a tenth of a second for one of a megabyte.
    most: { blocks: 1000, 'bytes in a key': 64 * kibi },
  },
  script: {
    what: 'the shell script by which a container or a unit starts',
    writers: 'root; who may write the manifest',
    // The longest argument of a program (MAX_ARG_STRLEN of Linux): no shell is given a longer script. Paths have four
    // kilobytes at most; variables that stand in each other could unfold without limit.
    most: { characters: 131_072, unfolded: 65_536 },
  },
  command: {
    what: 'what a `command` of `regen.sources` prints',
    writers: 'that program, which runs as root',
    most: { bytes: mebi },
  },
  offer: {
    what: 'a pair that a source of `regen.sources` offers',
    writers: 'who may write the source',
    // Go's crypto/tls takes a handshake message of 64 KiB at most, and refuses a longer chain.
    most: { certificates: 10 },
  },
  etcd: {
    what: 'an answer of etcd',
    writers: 'who is the member at the address',
    // An answer has some 30 bytes, a member list some 300 for each member.
    most: { characters: 65_536 },
  },
  readiness: {
    what: 'what a container of ours answers to `init adopt`',
    writers: 'who listens at its port on this machine',
    most: { characters: 10_000 },
  },
  health: {
    what: 'requests at the health port',
    writers: 'who reaches it',
    // A probe has some hundred bytes, and a scrape of Prometheus. One request of each connection is answered.
    most: { connections: 64, bytes: 8 * kibi },
  },
  event: {
    what: 'an event of a watch',
    writers: 'who may write the object',
    // One of metadata has some kilobytes, and ten megabytes in an object of the largest size, once for each change.
    most: { characters: 1_000_000 },
  },
  nodeTrust: {
    what: 'the ConfigMap `node-ca`',
    writers: 'who may update it',
    // A CA and its successor for each purpose are four; the system's bundle has 150. Of a file, with what it held before:
    // a kubeconfig with more than a thousand could not be read again.
    most: { 'CAs in a file': 300 },
  },
  nodeReport: {
    what: "a node's report of its CAs",
    writers: 'its kubelet; who may update Nodes',
    // Seven files with ten CAs each have two kilobytes. All annotations of an object together have 256 KiB.
    most: { characters: 65_536, bundles: 50 },
  },
  registryTrust: {
    what: 'CAs of image registries',
    writers: 'who may update their source',
    // Registries with a CA of their own are a handful; each becomes a file.
    most: { registries: 500 },
  },
} as const satisfies Readonly<Record<string, Bound>>;
