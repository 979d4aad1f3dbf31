// `rehearse` on machines that the real kubeadm has made, with leaves that live for seconds: what it says while they
// are valid is what the real run does once they have expired; no file of the machine changes, and nothing is left.
import { createHash, X509Certificate } from 'node:crypto';
import { lstat, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { blocks, page } from '../docs/markdown.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { onMachine } from '../support/cluster/machine-shell.ts';

/** A directory in memory of its own: other processes use that of this system meanwhile. */
const alone = 'mount -t tmpfs tmpfs /dev/shm\n';
/** Its units, and a systemctl that shows them as systemd does (test/e2e/systemd.test.ts): none runs here. */
const armed = `${alone}mkdir -p /run/systemd/system /run/bin /etc/systemd/system
cat >/run/bin/systemctl <<'EOF'
#!/bin/sh
[ "$1" = show ] || exit 0
cat <<END
Id=kube-cert-recovery.timer
ActiveState=active
UnitFileState=enabled

Id=kube-cert-recovery.service
LoadState=loaded
$(grep ^ExecStart= /etc/systemd/system/kube-cert-recovery.service)

Id=kubelet.service
LoadState=loaded
$(grep ^ExecStartPre= /etc/systemd/system/kubelet.service.d/20-kube-cert-recovery.conf)
END
EOF
chmod +x /run/bin/systemctl
PATH=/run/bin:$PATH
kube-cert-recovery init host >/dev/null 2>&1
`;

const dated = 'kubelet-client-2026-01-01-00-00-00.pem';
const places = '/run /dev/shm /var/lib /etc/kubernetes';
const left = (names: string): string => `find ${places} | sort >${names}\n`;
/** Prints what is there after the command and was not before, and its exit code last. */
const watched = (command: string): string =>
  `set +e\nmkdir /etc/seen\n${left('/etc/seen/before')}${command}\ncode=$?\n${left('/etc/seen/after')}` +
  `diff /etc/seen/before /etc/seen/after >&2; exit $code`;

let shortLived: KubeadmMachine;
let healthy: KubeadmMachine;
beforeAll(async () => {
  healthy = await made('');
  shortLived = await made('certificateValidityPeriod: 20s');
}, 120_000);
afterAll(() => Promise.all([shortLived, healthy].map((machine) => machine?.[Symbol.asyncDispose]())));

async function made(more: string): Promise<KubeadmMachine> {
  const machine = await KubeadmMachine.create(more);
  await mkdir(join(machine.root, 'var/lib/kube-cert-recovery'), { recursive: true });
  await withKubeletPair(machine);
  return machine;
}

/** As kubelets keep it: a link to a dated file, which kubelet.conf names. */
async function withKubeletPair(machine: KubeadmMachine): Promise<void> {
  const pki = join(machine.root, 'var/lib/kubelet/pki');
  await mkdir(pki, { recursive: true });
  const conf = await readFile(machine.path('kubelet.conf'), 'utf8');
  const held = [...conf.matchAll(/client-(?:certificate|key)-data: (\S+)/g)].map(([, data = '']) => data);
  const pem = held.map((data) => Buffer.from(data, 'base64').toString()).join('');
  await writeFile(join(pki, dated), pem, { mode: 0o600 });
  await symlink(`/var/lib/kubelet/pki/${dated}`, join(pki, 'kubelet-client-current.pem'));
  const named = conf.replaceAll(
    /client-(certificate|key)-data: \S+/g,
    'client-$1: /var/lib/kubelet/pki/kubelet-client-current.pem',
  );
  await writeFile(machine.path('kubelet.conf'), named);
}

/** Every file and link by its content and its dates of change. */
async function state({ root }: KubeadmMachine): Promise<Readonly<Record<string, string>>> {
  const all = ['etc', 'var'].map((name) => readdir(join(root, name), { recursive: true, withFileTypes: true }));
  const each = (await Promise.all(all)).flat().map(async (entry): Promise<[string, string]> => {
    const path = join(entry.parentPath, entry.name);
    const { mtimeMs, ctimeMs, mode, ino } = await lstat(path);
    const bytes = entry.isFile() ? await readFile(path) : '';
    return [path, `${createHash('sha256').update(bytes).digest('hex')} ${mtimeMs} ${ctimeMs} ${mode} ${ino}`];
  });
  return Object.fromEntries(await Promise.all(each));
}

/** Rehearses on an armed machine, which must be afterwards as it was. */
async function rehearsed(machine: KubeadmMachine, flags = '', place = armed): Promise<Outcome> {
  const before = await state(machine);
  const outcome = await onMachine(machine.root, watched(`kube-cert-recovery rehearse ${flags}`), { place });
  expect(outcome.stderr, 'what is left, and errors').toBe('');
  expect(await state(machine)).toEqual(before);
  return outcome;
}

const firstColumn = (text: string, title: string): readonly string[] => {
  const [, ...rows] = text.slice(text.indexOf(title)).split(/\n\n/)[0]?.split('\n') ?? [];
  return rows.map((row) => row.split(/ {3,}/)[0] ?? '').toSorted();
};
const lastLine = ({ stdout }: Outcome): string => stdout.trim().split('\n').at(-1) ?? '';

/** When its last leaf expires: kubelet.conf is among the last that kubeadm makes. */
async function lastExpiry({ root }: KubeadmMachine): Promise<number> {
  const pem = await readFile(join(root, 'var/lib/kubelet/pki', dated));
  return new X509Certificate(pem).validToDate.getTime() + 5000;
}

/** The real run, by its own clock, after the leaves of the machine have expired. */
async function realRun(machine: KubeadmMachine) {
  await delay(Math.max(0, (await lastExpiry(shortLived)) - Date.now()));
  const run = await onMachine(machine.root, 'kube-cert-recovery --preset=kubeadm --mode=regen --once', {
    place: armed,
  });
  const lines = `${run.stdout}\n${run.stderr}`
    .split('\n')
    .flatMap((line) => (line.startsWith('{') ? [JSON.parse(line)] : [])) as {
    event: string;
    artefact?: string;
  }[];
  const written = new Set(
    lines.flatMap(({ event, artefact }) => (/\.(regenerated|restored|updated)$/.test(event) ? [artefact ?? ''] : [])),
  );
  const { stdout } = await onMachine(machine.root, 'kube-cert-recovery status -o json', { place: armed });
  return { code: run.code, written: [...written].toSorted(), status: JSON.parse(stdout).status as string };
}

async function flip(machine: KubeadmMachine, file: string): Promise<void> {
  const path = machine.path('pki', file);
  const text = await readFile(path, 'utf8');
  const at = text.length >> 1;
  await writeFile(path, `${text.slice(0, at)}${text[at] === 'A' ? 'B' : 'A'}${text.slice(at + 1)}`);
}

describe('rehearse says what the real run then does', () => {
  it.each<readonly [string, number, RegExp, (machine: KubeadmMachine) => Promise<unknown>]>([
    ['when all leaves expire', 0, /, this node would come back by itself\. \(12 made /, async () => {}],
    [
      "when a bit of the cluster's CA is flipped",
      0,
      / would come back by itself\. \(13 made /,
      (one) => flip(one, 'ca.crt'),
    ],
    [
      "without the key of the cluster's CA",
      5,
      / not come back by itself\. \(5 made /,
      (one) => rm(one.path('pki/ca.key')),
    ],
    ['when a leaf is gone', 0, / would come back by itself\. \(12 made /, (one) => rm(one.path('pki/apiserver.crt'))],
  ])('%s (exit %i)', async (_, exit, verdict, change) => {
    await using machine = await shortLived.copy();
    await change(machine);
    const drill = await rehearsed(machine);
    expect(drill.code, drill.stdout).toBe(exit);
    expect(lastLine(drill)).toMatch(verdict);
    const real = await realRun(machine);
    expect(firstColumn(drill.stdout, 'MADE'), drill.stdout).toEqual(real.written);
    expect(real.code === 0, JSON.stringify(real)).toBe(exit === 0);
    expect(real.status === 'healthy').toBe(exit === 0);
  });
});

describe('rehearse', () => {
  it('makes nothing as of a day on which all is valid', async () => {
    const tomorrow = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10);
    const { code, stdout } = await rehearsed(healthy, `--at=${tomorrow}`);
    expect(code, stdout).toBe(0);
    expect(stdout).not.toContain('MADE');
    expect(stdout).toContain(', this node would come back by itself. (0 made ');
  });

  it('says that a machine without units does not repair itself, as status --at does', async () => {
    const { code, stdout } = await rehearsed(healthy, '', alone);
    expect(stdout).toContain(
      'not come back by itself: the repair works, and nothing here is known to run it: "/etc/systemd/system/kube-cert-recovery.service" and 3 more absent. Run: kube-cert-recovery init host',
    );
    const { code: forecast } = await onMachine(healthy.root, 'kube-cert-recovery status --at=2040-01-01');
    expect([code, forecast]).toEqual([3, 3]);
  });

  it('on a worker rehearses nothing that its cluster has to sign', async () => {
    await using worker = await healthy.copy();
    for (const name of ['manifests', 'admin.conf', 'super-admin.conf', 'controller-manager.conf', 'scheduler.conf'])
      await rm(worker.path(name), { recursive: true });
    const authority = await readFile(worker.path('pki/ca.crt'));
    await rm(worker.path('pki'), { recursive: true });
    await mkdir(worker.path('pki'));
    await writeFile(worker.path('pki/ca.crt'), authority);
    const { code, stdout } = await rehearsed(worker, '', alone);
    expect(stdout).toContain('kubelet-client comes from elsewhere: nothing was requested');
    expect(stdout).toContain('this node would come back if it gets elsewhere what it cannot make itself. (0 made ');
    expect(code).toBe(3);
  });

  it('runs as docs/rehearse.md has it typed', async () => {
    const typed = blocks(page('docs/rehearse.md')).flatMap(({ language, text }) => (language === 'sh' ? [text] : []));
    expect(typed).toHaveLength(1);
    const { stdout } = await onMachine(healthy.root, typed.join('\n'), { place: armed });
    expect(stdout.match(/^Off until .* would come back by itself\. .*$/gm)).toHaveLength(2);
    for (const title of ['MADE', 'Not rehearsed']) expect(stdout).toContain(title);
  });

  const copies = 'find /run/kube-cert-recovery-rehearsal -name "*.key" | grep -q . && echo keys || echo none';
  // At the first link that it makes: in the middle of copying, whatever the speed of the machine.
  const interrupted = (signal: string): string =>
    `set +e; strace -f -o /dev/null -e trace=symlink -e inject=symlink:signal=${signal}:when=1 ` +
    `kube-cert-recovery rehearse >/etc/said 2>&1; echo "exit $?"; ${copies}`;

  it('leaves no copies when it is terminated', async () => {
    await using machine = await shortLived.copy();
    const { stdout, stderr } = await onMachine(machine.root, interrupted('SIGTERM'), { place: armed });
    expect(stdout, stderr).toMatch(/^exit (?:1|143)\nnone\n$/);
  });

  it('removes what a killed one has left', async () => {
    await using machine = await shortLived.copy();
    const script = `${interrupted('SIGKILL')}\nkube-cert-recovery rehearse >/etc/said; ${copies}`;
    const { stdout, stderr } = await onMachine(machine.root, script, { place: armed });
    expect(stdout, stderr).toBe('exit 137\nkeys\nnone\n');
  });

  it('keeps copies of keys in memory only', async () => {
    const disk = 'mount --rbind /proc /run\n';
    const shared = 'kube-cert-recovery rehearse >/etc/said || echo "exit $?"; ls -A /dev/shm';
    expect((await onMachine(healthy.root, shared, { place: `${armed}${disk}` })).stdout).toBe('exit 3\n'); // systemd's /run is gone
    const full = `${armed}mount -t tmpfs -o size=64k tmpfs /run\n`;
    const crowded = await onMachine(healthy.root, 'kube-cert-recovery rehearse || ls -A /run', { place: full });
    expect(crowded.stderr).toMatch(
      /^Cannot copy .*: "\/run\/kube-cert-recovery-rehearsal\/root\/[^"]*": no space left/,
    );
    expect(crowded.stdout, 'what is left').toBe('');
    const none = `${disk}mount --rbind /proc /dev/shm\n`;
    const { code, stderr } = await onMachine(healthy.root, 'kube-cert-recovery rehearse', { place: none });
    expect(stderr).toMatch(/^Cannot keep copies of keys: neither of \/run, \/dev\/shm is a file system in memory/);
    expect(code).toBe(1);
  });
});
