// Command lines of the containers of static pods: variables that the kubelet expands, shells, names of containers.
import { describe, expect, it } from 'vitest';
import { argumentsOf } from '../../lib/inventory/discover/component-arguments.ts';
import { valuesIn } from '../../lib/inventory/discover/component-settings.ts';
import { commandLineOf, flagsOf } from '../../lib/inventory/discover/documents.ts';
import { toYaml } from '../../lib/yaml.ts';

const pod = (...containers: readonly object[]): string =>
  toYaml({ kind: 'Pod', metadata: { name: 'kube-apiserver' }, spec: { containers } });

const of = { component: 'kube-apiserver', source: '/kube-apiserver.yaml' };

function certificateOf(container: object): string | undefined {
  const line = commandLineOf(pod({ name: 'kube-apiserver', ...container }), {
    component: 'kube-apiserver',
    source: '',
  });
  const args = argumentsOf('kube-apiserver', line?.words ?? [], line?.variables);
  return valuesIn(args ?? [])
    .get('tls-cert-file')
    ?.at(-1);
}

describe('commandLineOf()', () => {
  it('expands variables as the kubelet does', () => {
    const env = [
      { name: 'TOP', value: '/etc/own' },
      { name: 'OWN', value: '$(TOP)/tls' },
      { name: 'FIELD', valueFrom: { fieldRef: { fieldPath: 'status.hostIP' } } },
    ];
    const at = (path: string): string | undefined =>
      certificateOf({ env, command: ['kube-apiserver'], args: [`--tls-cert-file=${path}`] });
    expect(at('$(OWN)/a.crt')).toBe('/etc/own/tls/a.crt');
    expect(at('/x/$$(OWN).crt')).toBe('/x/$(OWN).crt');
    expect(at('$(NONE)/a.crt')).toBe('$(NONE)/a.crt');
    expect(at('$(FIELD)/a.crt')).toBe('$(FIELD)/a.crt');
    const manifest = pod({ env, command: ['kube-apiserver', '--tls-cert-file', '$(OWN)/a.crt'] });
    expect(flagsOf(manifest)?.get('tls-cert-file')).toBe('/etc/own/tls/a.crt');
  });

  it.each([
    ['parameters', 'exec kube-apiserver "$@"', ['--tls-cert-file=/a.crt']],
    ['a numbered parameter', 'exec kube-apiserver --tls-cert-file "$1"', ['/a.crt']],
    ['an assignment', 'P=/; exec kube-apiserver --tls-cert-file=${P}a.crt "$@"', []],
    ['an exported variable', 'export P=\'/a\'\nkube-apiserver \\\n --tls-cert-file="$P.crt" # --tls-cert-file=/no', []],
    ['a variable of the container', 'exec kube-apiserver --tls-cert-file=$DIR/a.crt', []],
    ['a variable with flags', 'exec kube-apiserver $FLAGS 1>>/log 2>&1', []],
    ['a default', 'exec kube-apiserver --tls-cert-file=${NONE:-/a.crt}', []],
    ['a branch', 'if [ -e /x ]; then exec kube-apiserver --tls-cert-file=/a.crt; fi', []],
  ])('reads the script of a shell with %s', (_, script, words) => {
    const env = [
      { name: 'DIR', value: '' },
      { name: 'FLAGS', value: '--v=2 --tls-cert-file=/a.crt' },
    ];
    for (const command of [
      ['/bin/sh', '-c'],
      ['tini', '--', 'bash', '-ec'],
    ])
      expect(certificateOf({ env, command, args: [script, 'kube-apiserver', ...words] })).toBe('/a.crt');
  });

  it.each([
    ['a variable that nothing sets', 'exec kube-apiserver --tls-cert-file=$NONE/a.crt'],
    ['the output of a command', 'exec kube-apiserver --tls-cert-file=$(cat /etc/place)/a.crt'],
    ['an assignment on a condition', 'P=/x; [ -e /y ] && P=/y; exec kube-apiserver --tls-cert-file=$P/a.crt'],
    ['single quotes', "exec kube-apiserver --tls-cert-file='$DIR/a.crt'"],
  ])('leaves %s as it is written', (_, script) => {
    expect(certificateOf({ env: [{ name: 'DIR', value: '/x' }], command: ['sh', '-c', script] })).toContain('$');
  });

  it('finds the container that runs the component where none has its name', () => {
    const own = { name: 'api', command: ['/usr/local/bin/kube-apiserver', '--tls-cert-file=/a.crt'] };
    const sidecar = { name: 'log', command: ['tail', '-f', '/var/log/kube-apiserver'] };
    expect(commandLineOf(pod(sidecar, own), of)?.words).toEqual(own.command);
    const named = { name: 'kube-apiserver', args: ['--tls-cert-file=/b.crt'] };
    expect(commandLineOf(pod(own, named), of)?.words).toEqual(named.args);
    expect(commandLineOf(pod(sidecar), of)).toBeUndefined();
  });
});
