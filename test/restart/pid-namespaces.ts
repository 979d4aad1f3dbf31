// Run in a PID namespace of its own: starts a component beside itself and one in a namespace below, and prints how many of
// each it sees, by name alone and in its own namespace.
import { spawn } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { processesInPod } from '../../lib/restart/processes.ts';

const component = 'kube-scheduler';
const wait = `exec -a ${component} sh -c 'echo ready; read -r _'`;
const beside = spawn('bash', ['-c', wait], { stdio: ['pipe', 'pipe', 'inherit'] });
const below = spawn('unshare', ['--pid', '--fork', 'bash', '-c', wait], { stdio: ['pipe', 'pipe', 'inherit'] });
await Promise.all([beside, below].map(({ stdout }) => new Promise((resolve) => void stdout.once('data', resolve))));
const names = await Promise.all(
  (await readdir('/proc'))
    .filter((name) => /^\d+$/.test(name))
    .map((name) => readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '')),
);
const found = processesInPod(component);
const isOurs = found.map(({ pid }) => pid === beside.pid);
process.stdout.write(
  JSON.stringify({ visible: names.filter((name) => name.startsWith(`${component}\0`)).length, isOurs }),
);
for (const { stdin } of [beside, below]) stdin.end();
