import { describe, expect, it } from 'vitest';
import {
  hostPathOf,
  valuesIn,
  valuesOfVariables,
  withConfiguration,
} from '../../lib/inventory/discover/component-settings.ts';
import { argumentsOf } from '../../lib/inventory/discover/component-arguments.ts';
import { environmentFile, serviceUnit, shellWords, withVariables } from '../../lib/inventory/discover/unit-files.ts';

describe('serviceUnit()', () => {
  it("reads kubeadm's unit of the kubelet with its drop-in", () => {
    const unit = '[Unit]\nDescription=kubelet\n[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\n';
    const dropIn =
      '# Note\n[Service]\nEnvironment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/b.conf --kubeconfig=/k.conf"\n' +
      'EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\nEnvironmentFile=-/etc/default/kubelet\n' +
      'ExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_EXTRA_ARGS\n';
    const found = serviceUnit('kubelet.service', [unit, dropIn]);
    expect(found).toEqual({
      command: '/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_EXTRA_ARGS',
      environment: new Map([['KUBELET_KUBECONFIG_ARGS', '--bootstrap-kubeconfig=/b.conf --kubeconfig=/k.conf']]),
      environmentFiles: ['/var/lib/kubelet/kubeadm-flags.env', '/etc/default/kubelet'],
      workingDirectory: '/',
    });
    expect(withVariables(found?.command ?? '', found?.environment ?? new Map())).toEqual([
      '/usr/bin/kubelet',
      '--bootstrap-kubeconfig=/b.conf',
      '--kubeconfig=/k.conf',
    ]);
  });

  it.each<readonly [string, string, string | undefined]>([
    [
      'a command over several lines',
      '[Service]\nExecStart=/usr/bin/etcd \\\n  --name a\n',
      '/usr/bin/etcd    --name a',
    ],
    ['prefixes', '[Service]\nExecStart=-!/usr/bin/etcd\n', '/usr/bin/etcd'],
    ['a setting of another section', '[Unit]\nExecStart=/usr/bin/etcd\n', undefined],
    ['a command that was taken away', '[Service]\nExecStart=/usr/bin/etcd\nExecStart=\n', undefined],
    ['garbage', '\0\0[[=', undefined],
  ])('%s', (_title, text, command) => {
    expect(serviceUnit('etcd.service', [text])?.command).toBe(command);
  });
});

describe('specifiers', () => {
  it('that are the same on every machine are replaced', () => {
    const text =
      '[Service]\nExecStart=/usr/bin/%p --config=%E/%N/%i.yml --data=%S/%n --id=%m --x=50%%\n' +
      'EnvironmentFile=-"/etc/default/%p"\nWorkingDirectory=-%S/etcd\n';
    expect(serviceUnit('etcd@main.service', [text])).toEqual({
      command: '/usr/bin/etcd --config=/etc/etcd@main/main.yml --data=/var/lib/etcd@main.service --id=%m --x=50%',
      environment: new Map(),
      environmentFiles: ['/etc/default/etcd'],
      workingDirectory: '/var/lib/etcd',
    });
    expect(serviceUnit('a.service', ['[Service]\nExecStart=/a\nWorkingDirectory=~\n'])?.workingDirectory).toBe(
      undefined,
    );
  });
});

describe('words and variables', () => {
  it.each<readonly [string, readonly string[]]>([
    [`a "b c" 'd "e"' f\\ g`, ['a', 'b c', 'd "e"', 'f g']],
    ['  a\t b ', ['a', 'b']],
    [`--x="/a b" ""`, ['--x=/a b', '']],
    [`"not closed`, ['not closed']],
  ])('%s', (line, words) => {
    expect(shellWords(line)).toEqual(words);
  });

  it('takes a variable that is a word apart, and one in braces as it is', () => {
    const variables = new Map([['ARGS', '--a --b=c']]);
    expect(withVariables('x $ARGS "--y=${ARGS}" ${NONE} $$HOME', variables)).toEqual([
      'x',
      '--a',
      '--b=c',
      '--y=--a --b=c',
      '',
      '$HOME',
    ]);
  });

  it('reads a file of variables', () => {
    const text = '# note\n; note\nETCD_NAME=etcd1\nexport A="b c"\n B = d \nno variable\nKEY=a=b\n';
    expect([...environmentFile(text)]).toEqual([
      ['ETCD_NAME', 'etcd1'],
      ['A', 'b c'],
      ['B', 'd'],
      ['KEY', 'a=b'],
    ]);
  });
});

describe('argumentsOf()', () => {
  it.each<readonly [string, readonly string[], readonly string[] | undefined]>([
    ['a program', ['/usr/bin/kubelet', '--v=2'], ['--v=2']],
    ['a shell', ['sh', '-c', 'set -e; exec kubelet --v=2 --x "a b"'], ['--v=2', '--x', 'a b']],
    ['a shell with lines', ['/bin/bash', '-ec', 'true'], undefined],
    ['a shell with a variable', ['sh', '-c', 'kubelet $ARGS'], ['--v=3', '--w']],
    ['a wrapper', ['/usr/bin/env', 'A=b', 'numactl', '-N', '0', '/opt/bin/kubelet', '--v=2'], ['--v=2']],
    ['a shell that starts a shell', ['sh', '-c', '$X ; kubelet --v=2'], ['--v=2']],
    ['what only controls it', ['/usr/bin/systemctl', 'restart', 'kubelet'], undefined],
    ['another program', ['/usr/bin/etcd', '--name=kubelet'], undefined],
    ['nothing', [], undefined],
  ])('%s', (_title, words, expected) => {
    expect(
      argumentsOf(
        'kubelet',
        words,
        new Map([
          ['ARGS', '--v=3 --w'],
          ['X', "sh -c '$X ;'"],
        ]),
      ),
    ).toEqual(expected);
  });
});

describe('settings', () => {
  it('take each of many repeats of a flag', () => {
    const values = valuesIn(Array.from({ length: 50_000 }, (_, at) => `--a=${at}`));
    expect(values.get('a')).toHaveLength(50_000);
  });

  it('leave out what lies on no host, and what systemd would fill in', () => {
    const mounts = [
      { at: '/a', hostPath: '/host' },
      { at: '/a/gen', hostPath: undefined },
    ];
    expect(hostPathOf('/a/gen/tls.crt', { mounts })).toBeUndefined();
    expect(hostPathOf('/etc/etcd/%H.pem', { mounts: [] })).toBeUndefined();
  });

  it('let the configuration of kube-scheduler stand in place of its deprecated flags', () => {
    const given = { flag: 'config', file: '/c.yaml', documents: ['clientConnection: {}\n'] };
    const values = withConfiguration(
      'kube-scheduler',
      valuesIn(['--kubeconfig=/old.conf', '--tls-cert-file=/s.crt']),
      given,
    );
    expect(Object.fromEntries(values)).toEqual({ 'tls-cert-file': ['/s.crt'] });
  });

  it('takes variables of etcd for its flags', () => {
    const variables = new Map([
      ['ETCD_CERT_FILE', '/m.pem'],
      ['ETCDCTL_CERT', '/a.pem'],
      ['PATH', '/bin'],
      ['ETCD_KEY_FILE', ''],
    ]);
    expect([...valuesOfVariables('etcd', variables)]).toEqual([
      ['cert-file', ['/m.pem']],
      ['etcdctl-cert', ['/a.pem']],
    ]);
    expect(valuesOfVariables('kubelet', variables).size).toBe(0);
  });

  it('lets flags of the kubelet beat its configuration, whose relative paths lie beside it', () => {
    const document =
      'tlsCertFile: pki/k.crt\ntlsPrivateKeyFile: /k.key\nauthentication: {x509: {clientCAFile: /ca.crt}}\n';
    const values = withConfiguration('kubelet', valuesIn(['--tls-private-key-file=/other.key']), {
      flag: 'config',
      file: '/var/lib/kubelet/config.yaml',
      documents: [document, 'tlsCertFile: /later.crt\n', '{{{'],
    });
    expect(Object.fromEntries(values)).toEqual({
      'tls-cert-file': ['/later.crt'],
      'tls-private-key-file': ['/other.key'],
      'client-ca-file': ['/ca.crt'],
    });
  });

  it('lets the configuration of etcd stand alone', () => {
    const values = withConfiguration('etcd', valuesIn(['--cert-file=/ignored.crt', '--config-file=/c.yaml']), {
      flag: 'config-file',
      file: '/c.yaml',
      documents: ['client-transport-security: {cert-file: /c.crt, key-file: /c.key}\n'],
    });
    expect(Object.fromEntries(values)).toEqual({ 'cert-file': ['/c.crt'], 'key-file': ['/c.key'] });
  });

  it.each<readonly [string | undefined, string | undefined]>([
    ['/a/b/c', '/host/c'],
    ['/a/x', '/a/x'],
    ['a/b', undefined],
    [undefined, undefined],
  ])('finds the place of %s on the host', (path, expected) => {
    expect(hostPathOf(path, { mounts: [{ at: '/a/b', hostPath: '/host' }] })).toBe(expected);
  });
});
