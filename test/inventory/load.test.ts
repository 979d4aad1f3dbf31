import { describe, expect, it } from 'vitest';
import { RecoveryError } from '../../lib/errors.ts';
import { checkInventoryText, loadInventory } from '../../lib/inventory/load.ts';

const head = `apiVersion: kube-cert-recovery/v1alpha1
kind: Inventory
name: test
namespace: certs
`;

/** The smallest sound inventory: one signer, the bundle that holds it, one serving and one client target. */
const sound = `${head}
parameters:
  names: { description: names of the load balancer }
directories:
  pkiDir: { description: where, default: /etc/kubernetes/pki }
artefacts:
  - { kind: signer, name: signer, location: { secret: signer }, validity: 30d, refresh: 15d }
  - { kind: caBundle, name: ca, location: { configMap: ca }, signers: [signer] }
  - kind: target
    name: serving
    location: { pemPair: { certFile: '{pkiDir}/a.crt', keyFile: '{pkiDir}/a.key' } }
    issuer: signer
    usage: serving
    hostnames: [localhost, { parameter: names }]
    validity: 1h30m
    refresh: 10m
  - kind: target
    name: client
    location: { secret: client, namespace: elsewhere }
    issuer: signer
    usage: client
    commonName: system:client
    validity: 12h
    refresh: 5s
    published: optional
    readers: [{ component: kubectl }]
`;

/** `sound` with a replacement, which must be found in it. */
function changed(from: string, to: string): string {
  expect(sound).toContain(from);
  return sound.replace(from, to);
}
const added = (...lines: readonly string[]): string => `${sound}${lines.map((line) => `  - ${line}\n`).join('')}`;
const signer = (name: string, more = ''): string =>
  `{ kind: signer, name: ${name}, location: { secret: ${name} }, validity: 2d, refresh: 1d${more} }`;
const bundle = (name: string, signers: string): string =>
  `{ kind: caBundle, name: ${name}, location: { configMap: ${name} }, signers: [${signers}] }`;
const composed = (name: string, inputs: string): string =>
  `{ kind: composedBundle, name: ${name}, location: { configMap: ${name} }, inputs: [${inputs}] }`;
const copy = (name: string, of: string, location = `configMap: ${name}`): string =>
  `{ kind: copy, name: ${name}, location: { ${location} }, of: ${of} }`;

const promoted = (name: string, of: string, after: string, location = `secret: ${name}`): string =>
  copy(name, of, location).replace(' }', ` }, promoteAfter: ${after}`);

function problemsOf(text: string): string[] {
  const { inventory, problems } = checkInventoryText(text);
  expect(inventory === undefined).toBe(problems.length > 0);
  return problems.map(({ path, message }) => `${path}: ${message}`);
}

const bad: readonly (readonly [title: string, text: string, problem: string])[] = [
  [
    'an unknown key, with the nearest known one',
    changed('refresh: 10m', 'refreshs: 10m'),
    'artefacts[serving].refreshs: unknown key (did you mean "refresh"?)',
  ],
  [
    'an unknown key of another kind',
    changed('signers: [signer] }', 'signers: [signer], issuer: signer }'),
    'artefacts[ca].issuer: unknown key',
  ],
  [
    'an unknown key at the top',
    changed('directories:', 'directorys: {}\ndirectories:'),
    'directorys: unknown key (did you mean "directories"?)',
  ],
  [
    'a missing key',
    changed('    issuer: signer\n    usage: serving', '    usage: serving'),
    'artefacts[serving].issuer: is required: the signer that signs it',
  ],
  [
    'an unknown kind',
    changed('kind: caBundle', 'kind: caBundel'),
    'artefacts[ca].kind: must be one of signer, caBundle, composedBundle, copy, target, kubeconfigs, keyPair, external, opaque, got "caBundel" (did you mean "caBundle"?)',
  ],
  ['no kind', changed('kind: caBundle, ', ''), 'artefacts[ca].kind: is required: one of signer, caBundle'],
  [
    'another apiVersion',
    changed('v1alpha1', 'v2'),
    'apiVersion: must be "kube-cert-recovery/v1alpha1", got "kube-cert-recovery/v2"',
  ],
  [
    'a number for a duration',
    changed('validity: 12h', 'validity: 12'),
    'artefacts[client].validity: must be a duration such as "30d", "12h", "10m" or "5s", got 12',
  ],
  ['a duration with an unknown unit', changed('validity: 12h', 'validity: 12w'), 'got "12w"'],
  [
    'a refresh not before the end',
    changed('refresh: 10m', 'refresh: 2h'),
    'artefacts[serving].refresh: must be more than 0s and less than the validity 1h30m, got 2h',
  ],
  ['a refresh of nothing', changed('refresh: 10m', 'refresh: 0s'), 'artefacts[serving].refresh: must be more than 0s'],
  [
    'a name that is no object name',
    changed('name: client', 'name: Client_1'),
    'artefacts[Client_1].name: must be a Kubernetes object name',
  ],
  [
    'a Secret name that is no object name',
    changed('secret: signer', 'secret: ../signer'),
    'artefacts[signer].location.secret: must be a Kubernetes object name',
  ],
  [
    'a name twice',
    changed('name: client', 'name: serving'),
    'artefacts[3].name: must be unique, got "serving" as artefacts[2] has',
  ],
  [
    'no place',
    changed('{ secret: signer }', '{}'),
    'artefacts[signer].location: must have exactly one of secret, configMap, field, pemPair, pemFile, pemDirectory, combinedPem, registryAuths, kubeconfig and keyFiles, got none',
  ],
  ['two places', changed('{ secret: signer }', '{ secret: a, pemFile: /b }'), 'got secret and pemFile'],
  ['no namespace anywhere', changed('namespace: certs\n', ''), 'artefacts[signer].location.namespace: is required'],
  [
    'a namespace for a file',
    changed("keyFile: '{pkiDir}/a.key' }", "keyFile: '{pkiDir}/a.key' }, namespace: a"),
    'artefacts[serving].location.namespace: must be left out for files on this host',
  ],
  [
    'a relative path',
    changed("'{pkiDir}/a.crt'", 'pki/a.crt'),
    'artefacts[serving].location.pemPair.certFile: must be an absolute path without ".."',
  ],
  [
    'a path with ..',
    changed("'{pkiDir}/a.crt'", '/a/../b.crt'),
    'artefacts[serving].location.pemPair.certFile: must be an absolute path',
  ],
  ['a path with .. at its end', changed("'{pkiDir}/a.crt'", '/a/..'), 'artefacts[serving].location.pemPair.certFile'],
  [
    'a directory nobody declared',
    changed("'{pkiDir}/a.crt'", "'{pkiDirs}/a.crt'"),
    'artefacts[serving].location.pemPair.certFile: must begin with a declared directory, got "{pkiDirs}" (did you mean "pkiDir"?)',
  ],
  [
    'a directory nobody uses',
    changed('  pkiDir:', '  other: { description: x }\n  pkiDir:'),
    'directories.other: must be used by an artefact',
  ],
  [
    'a parameter nobody declared',
    changed('parameter: names', 'parameter: name'),
    'artefacts[serving].hostnames[1].parameter: must name a declared parameter, got "name" (did you mean "names"?)',
  ],
  [
    'a parameter nobody uses',
    changed('  names:', '  other: { description: x }\n  names:'),
    'parameters.other: must be used by an artefact',
  ],
  [
    'a default that is no host name',
    changed('description: names of the load balancer', 'description: x, default: ["a_b"]'),
    'parameters.names.default[0]: must be a DNS name or an IP address, got "a_b"',
  ],
  [
    'a directory below one that is declared later',
    changed('  pkiDir:', "  lower: { description: x, default: '{pkiDir}/x' }\n  pkiDir:"),
    'directories.lower.default: must begin with a directory that is declared before it, got "{pkiDir}"',
  ],
  [
    'a host name that is none',
    changed('[localhost,', '[local_host,'),
    'artefacts[serving].hostnames[0]: must be a DNS name or an IP address, got "local_host"',
  ],
  [
    'an address with a number missing',
    changed('[localhost,', '[10.0.1,'),
    'artefacts[serving].hostnames[0]: must be a DNS name or an IP address, got "10.0.1"',
  ],
  [
    'a serving target without names',
    changed('    hostnames: [localhost, { parameter: names }]\n', ''),
    'artefacts[serving].hostnames: is required: at least one name of a serving certificate',
  ],
  [
    'a client target without a user name',
    changed('    commonName: system:client\n', ''),
    'artefacts[client].commonName: is required',
  ],
  [
    'a client target with host names',
    changed('commonName: system:client', 'commonName: a\n    hostnames: [b]'),
    'artefacts[client].hostnames: must be left out for a client certificate',
  ],
  [
    'an issuer that is not there',
    changed('issuer: signer\n    usage: client', 'issuer: signr\n    usage: client'),
    'artefacts[client].issuer: must name a signer of this inventory, got "signr" (did you mean "signer"?)',
  ],
  [
    'an issuer that is a bundle',
    changed('issuer: signer\n    usage: client', 'issuer: ca\n    usage: client'),
    'artefacts[client].issuer: must name a signer, got "ca", a caBundle',
  ],
  [
    'a bundle of a bundle',
    added(bundle('b', 'ca')),
    'artefacts[b].signers[0]: must name a signer, got "ca", a caBundle',
  ],
  [
    'a bundle of a copy of a signer',
    added(copy('c', 'signer', 'secret: c'), bundle('b', 'c')),
    'artefacts[b].signers[0]: must name a signer, got "c", a copy',
  ],
  [
    'a signer named twice',
    added(bundle('b', 'signer, signer')),
    'artefacts[b].signers[1]: must be named once, got "signer" again',
  ],
  ['a bundle of nothing', added(bundle('b', '')), 'artefacts[b].signers: must be a list of at least 1, got []'],
  [
    'a composed bundle of a signer',
    added(composed('b', 'signer')),
    'artefacts[b].inputs[0]: must name a bundle or a copy of one, got "signer", a signer',
  ],
  [
    'a composed bundle of a copy of a target',
    added(copy('c', 'client', 'secret: c'), composed('b', 'c')),
    'artefacts[b].inputs[0]: must name a bundle or a copy of one, got "c", a copy',
  ],
  [
    'a composed bundle of an object that is not understood',
    added('{ kind: opaque, name: o, location: { configMap: o } }', composed('b', 'o')),
    'artefacts[b].inputs[0]: must name a bundle or a copy of one, got "o", an opaque object',
  ],
  [
    'a copy of a key pair',
    added(
      '{ kind: keyPair, name: k, location: { secret: k }, privateKey: a, publicKey: b }',
      copy('c', 'k', 'secret: c'),
    ),
    'artefacts[c].of: must name a signer, a target, a bundle or a copy of one, got "k", a keyPair',
  ],
  [
    'a copy of a copy of an object that is not understood',
    added(
      '{ kind: opaque, name: o, location: { secret: o } }',
      copy('a', 'o', 'secret: a'),
      copy('b', 'a', 'secret: b'),
    ),
    'artefacts[b].of: must name a signer, a target, a bundle or a copy of one, got "a", a copy',
  ],
  [
    'a copy of nothing',
    added(copy('c', 'gone')),
    'artefacts[c].of: must name a signer, a target, a bundle or a copy of one of this inventory, got "gone"',
  ],
  [
    'a bundle that is promoted',
    added(copy('a', 'ca'), promoted('b', 'a', '5m', 'configMap: b')),
    'artefacts[b].promoteAfter: must be left out: only a signer or a target is promoted, got a copy of "ca", a caBundle',
  ],
  [
    'a promotion after nothing',
    added(promoted('c', 'signer', '0s')),
    'artefacts[c].promoteAfter: must be more than 0s and less than the refresh 15d of "signer", got 0s',
  ],
  [
    'a promotion after the next renewal, over two copies',
    added(copy('b', 'client', 'secret: b'), promoted('c', 'b', '5s')),
    'artefacts[c].promoteAfter: must be more than 0s and less than the refresh 5s of "client", got 5s',
  ],
  [
    'a promotion of what does not tell its age',
    changed('commonName: system:client', 'commonName: system:client\n    template: present') +
      `  - ${promoted('c', 'client', '1s')}\n`,
    'artefacts[c].promoteAfter: must be left out: a renewal of "client" begins with its CA (template: present), so nothing tells its age',
  ],
  [
    'a server that keeps its subject',
    changed('    usage: serving', '    usage: serving\n    keepsSubject: true'),
    'must be left out: only a client has rights, got serving',
  ],
  [
    'a subject that is kept twice',
    changed('commonName: system:client', 'commonName: system:client\n    template: present\n    keepsSubject: true'),
    'artefacts[client].keepsSubject: must be left out: template: present keeps the subject already',
  ],
  [
    'a promotion of what is no copy',
    changed('signers: [signer] }', 'signers: [signer], promoteAfter: 5m }'),
    'artefacts[ca].promoteAfter: unknown key',
  ],
  [
    'a copy in a place of another kind',
    added(copy('c', 'client')),
    'artefacts[c].location: must be a secret or a pemPair or a combinedPem or a kubeconfig for a copy, got a configMap',
  ],
  [
    'a signer in a ConfigMap',
    changed('{ secret: signer }', '{ configMap: signer }'),
    'artefacts[signer].location: must be a secret or a pemPair for a signer, got a configMap',
  ],
  [
    'a bundle in a Secret',
    changed('{ configMap: ca }', '{ secret: ca }'),
    'artefacts[ca].location: must be a configMap or a pemFile for a caBundle, got a secret',
  ],
  [
    'a signer that issues itself',
    changed('validity: 30d, refresh: 15d }', 'validity: 30d, refresh: 15d, issuer: signer }'),
    'artefacts[signer]: must not wait for itself: signer -> signer',
  ],
  [
    'two signers that issue each other',
    added(signer('a', ', issuer: b'), signer('b', ', issuer: a'), bundle('ab', 'a, b')),
    'artefacts[a]: must not wait for itself: a -> b -> a',
  ],
  [
    'bundles composed of each other',
    added(composed('a', 'ca, b'), composed('b', 'a')),
    'artefacts[a]: must not wait for itself: a -> b -> a',
  ],
  [
    'an intermediate signer whose trust waits for it',
    added(signer('a', ', issuer: signer'), signer('b', ', issuer: a'), bundle('ab', 'a'), bundle('loop', 'signer, b')),
    'must not wait for itself: a -> loop -> b -> a',
  ],
  ['copies of each other', added(copy('a', 'b'), copy('b', 'a')), 'must not wait for itself: a -> b -> a'],
  [
    'an issuer that no bundle holds',
    changed('signers: [signer]', 'signers: [other]') + `  - ${signer('other')}\n`,
    'artefacts[serving].issuer: must name a signer that a caBundle holds, got "signer", which none holds',
  ],
  [
    'two artefacts in one Secret',
    added(signer('other').replace('secret: other', 'secret: signer')),
    'artefacts[other].location.secret: must be a place of its own, got Secret "certs/signer", which "signer" has already',
  ],
  [
    'two artefacts in one file',
    changed('{ configMap: ca }', "{ pemFile: '{pkiDir}/a.crt' }"),
    'artefacts[serving].location.pemPair.certFile: must be a place of its own, got file "{pkiDir}/a.crt", which "ca" has already',
  ],
  [
    'a certificate and its key in one file',
    changed('{pkiDir}/a.key', '{pkiDir}/a.crt'),
    'artefacts[serving].location.pemPair.keyFile: must be a place of its own, got file "{pkiDir}/a.crt", which it has itself already',
  ],
  [
    'two published objects of one name',
    added('{ kind: opaque, name: o, location: { secret: client }, published: required }'),
    'artefacts[o].published: must be a place of its own, got directory "secrets/client" of the syncer, which "client" has already',
  ],
  [
    'a published file',
    changed('usage: serving', 'usage: serving\n    published: required'),
    'artefacts[serving].published: must be left out',
  ],
  [
    'proof of signing by a client',
    changed('{ component: kubectl }', '{ component: kubectl, proof: { kind: signsCsr } }'),
    'artefacts[client].readers[0].proof: must not be signsCsr',
  ],
  [
    'proof of serving by a client',
    changed('{ component: kubectl }', '{ component: kubectl, proof: { kind: served, serverName: a } }'),
    'artefacts[client].readers[0].proof: must not be served',
  ],
  [
    'an unknown proof',
    changed('{ component: kubectl }', '{ component: kubectl, proof: { kind: serves } }'),
    'artefacts[client].readers[0].proof.kind: must be one of served, lease, signsCsr, proxied, none, got "serves" (did you mean "served"?)',
  ],
  [
    'an unknown key in a proof',
    changed(
      '{ component: kubectl }',
      '{ component: kubectl, proof: { kind: lease, namespace: a, name: b, lease: c } }',
    ),
    'artefacts[client].readers[0].proof.lease: unknown key',
  ],
  [
    'a key of a key pair that is a path',
    added('{ kind: keyPair, name: k, location: { secret: k }, privateKey: ../a, publicKey: b }'),
    'artefacts[k].privateKey: must be a key of a Secret',
  ],
  [
    'a service that is a path',
    changed('namespace: certs', 'namespace: certs\nrepairsBefore: [../etcd.service]'),
    'repairsBefore[0]: must be a service of systemd',
  ],
  ['no artefacts', `${head}artefacts: []\n`, 'artefacts: must be a list of at least 1, got []'],
  ['text that is no mapping', 'hello\n', ': must be a mapping, got "hello"'],
  ['an empty file', '', ': must be a mapping, got null'],
  ['a key twice', changed('namespace: certs', 'namespace: certs\nnamespace: certs'), 'Map keys must be unique'],
];

describe('checkInventoryText()', () => {
  it('finds nothing wrong with a sound inventory', () => {
    expect(problemsOf(sound)).toEqual([]);
  });

  it.each(bad)('refuses %s', (_title, text, problem) => {
    expect(problemsOf(text)).toEqual(expect.arrayContaining([expect.stringContaining(problem)]));
  });

  it('tells all problems of all kinds at once, in the order of the file, each with its line', () => {
    const text = `${head}artefacts:
  - { kind: signer, name: signer, location: { secret: signer }, validity: 30, refresh: 15d }
  - { kind: caBundle, name: ca, location: { configMap: ca }, signers: [signer, gone] }
  - kind: target
    name: ca
    location: { secret: client }
    issuer: signer
    usage: client
    valid: 12h
    refresh: 5s
`;
    const { problems } = checkInventoryText(text, { source: 'my.yaml' });
    expect(problems.map(({ line, path, kind, source }) => [source, line, path, kind])).toEqual([
      ['my.yaml', 6, 'artefacts[signer].validity', 'invalid'],
      ['my.yaml', 7, 'artefacts[1].signers[1]', 'notFound'],
      ['my.yaml', 8, 'artefacts[2].validity', 'required'],
      ['my.yaml', 9, 'artefacts[2].name', 'duplicate'],
      ['my.yaml', 13, 'artefacts[2].valid', 'unknown'],
    ]);
  });
});

describe('loadInventory()', () => {
  it('gives the model: locations, durations in milliseconds, defaults', () => {
    const { artefacts, parameters, directories } = loadInventory(sound);
    expect(parameters).toEqual({ names: { description: 'names of the load balancer' } });
    expect(directories).toEqual({ pkiDir: { description: 'where', default: '/etc/kubernetes/pki' } });
    expect(artefacts[0]).toEqual({
      kind: 'signer',
      name: 'signer',
      location: { kind: 'secret', namespace: 'certs', name: 'signer' },
      validity: 2_592_000_000,
      refresh: 1_296_000_000,
      readers: [],
    });
    expect(artefacts[2]).toMatchObject({
      location: { kind: 'pemPair', certFile: '{pkiDir}/a.crt', keyFile: '{pkiDir}/a.key' },
      hostnames: ['localhost', { parameter: 'names' }],
      validity: 5_400_000,
    });
    expect(artefacts[3]).toMatchObject({
      published: 'optional',
      organizations: [],
      readers: [{ component: 'kubectl', needs: 'nothing', proof: { kind: 'none' } }],
    });
  });

  it('puts the namespace that it is given in the place of the default one, and of no other', () => {
    const { artefacts } = loadInventory(sound, { namespace: 'external' });
    expect(artefacts.map(({ location }) => ('namespace' in location ? location.namespace : undefined))).toEqual([
      'external',
      'external',
      undefined,
      'elsewhere',
    ]);
  });

  it('sees two places that become one by the namespace that it is given', () => {
    const text = added('{ kind: opaque, name: o, location: { secret: client } }');
    expect(checkInventoryText(text).problems).toEqual([]);
    expect(checkInventoryText(text, { namespace: 'elsewhere' }).problems).toHaveLength(1);
  });

  it('throws InventoryInvalid, which names the file and lists all problems', () => {
    const text = changed('validity: 12h', 'validity: 12').replace('signers: [signer]', 'signers: [sign]');
    let thrown: unknown;
    try {
      loadInventory(text, { source: 'my.yaml' });
    } catch (err) {
      thrown = err;
    }
    expect(thrown).toBeInstanceOf(RecoveryError);
    expect(thrown).toMatchObject({ code: 'InventoryInvalid', details: { problems: 2 } });
    expect((thrown as Error).message).toMatch(
      /^Cannot load inventory "my\.yaml": 2 problems\n {2}my\.yaml line 12: .*\n {2}my\.yaml line 27: /,
    );
  });
});
