// docs/by-hand.md on a node of the real kubeadm on which all has expired, the CAs too: its commands, and then openssl's
// verdict.
import { copyFile, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { blocks, page } from '../docs/markdown.ts';
import { findBinaries } from '../support/cluster/binaries.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';
import { onMachine } from '../support/cluster/machine-shell.ts';

const current = '/var/lib/kubelet/pki/kubelet-client-current.pem';

it('renews everything without this program', async () => {
  await using machine = await KubeadmMachine.create('certificateValidityPeriod: 5s\ncaCertificateValidityPeriod: 5s');
  const conf = await readFile(machine.path('kubelet.conf'), 'utf8');
  const held = [...conf.matchAll(/client-(?:certificate|key)-data: (\S+)/g)].map(([, data = '']) => data);
  const pki = join(machine.root, dirname(current));
  await mkdir(pki, { recursive: true });
  const pem = held.map((data) => Buffer.from(data, 'base64').toString()).join('');
  await writeFile(join(pki, 'first.pem'), pem, { mode: 0o600 });
  await symlink('first.pem', join(machine.root, current));
  await delay(6000);
  const bin = join(machine.root, 'bin');
  await mkdir(bin);
  await copyFile('/usr/lib/ssl/openssl.cnf', join(machine.root, 'openssl.cnf'));
  await copyFile((await findBinaries(['kubeadm'])).get('kubeadm') ?? '', join(bin, 'kubeadm'));

  const typed = blocks(page('docs/by-hand.md')).flatMap(({ language, text }) => (language === 'sh' ? [text] : []));
  expect(typed).toHaveLength(5);
  const verify = (ca: string, leaf: string, purpose: string): string =>
    `openssl verify -x509_strict -purpose ${purpose} -CAfile /etc/kubernetes/pki/${ca} ${leaf}`;
  const checks = [
    ...['etcd/server', 'etcd/peer'].map((name) =>
      verify('etcd/ca.crt', `/etc/kubernetes/pki/${name}.crt`, 'sslserver'),
    ),
    verify('ca.crt', '/etc/kubernetes/pki/apiserver.crt', 'sslserver'),
    verify('ca.crt', '/etc/kubernetes/pki/apiserver-kubelet-client.crt', 'sslclient'),
    verify('front-proxy-ca.crt', '/etc/kubernetes/pki/front-proxy-client.crt', 'sslclient'),
    verify('ca.crt', current, 'sslclient'),
    `openssl x509 -noout -subject -in ${current}`,
    `openssl x509 -noout -pubkey -in ${current} | grep -v ^- | tr -d '\\n'; echo`,
    `openssl pkey -pubout -in ${current} | grep -v ^- | tr -d '\\n'; echo`,
  ];
  const script = [`export PATH=${bin}:$PATH`, ...typed, 'echo CHECKS', ...checks].join('\n');
  const { code, stdout, stderr } = await onMachine(machine.root, script, {
    place: 'install -D openssl.cnf /etc/ssl/openssl.cnf\n',
  });
  expect(code, `${stdout}\n${stderr}`).toBe(0);
  const lines = stdout.slice(stdout.indexOf('CHECKS\n')).trim().split('\n').slice(1);
  expect(
    lines.slice(0, 6).map((line) => line.endsWith(': OK')),
    lines.join('\n'),
  ).toEqual(Array(6).fill(true));
  expect(lines[6]).toBe('subject=O = system:nodes, CN = system:node:node1');
  expect(lines[7]).toBe(lines[8]);
}, 60_000);
