import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

test('requests that sixty clients send ahead, and whose answers nobody reads, take no memory', async () => {
  const file = fileURLToPath(new URL('support/faults/health-child.ts', import.meta.url));
  const child = spawn(process.execPath, ['--max-old-space-size=64', file], { stdio: ['ignore', 'pipe', 'ignore'] });
  const megabytes = (field: string): number => {
    const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
    return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024;
  };
  try {
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    const port = Number(line.toString());
    const idle = megabytes('VmRSS');
    const ahead = 'GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(2000);
    const closed = Array.from({ length: 60 }, async () => {
      const socket = connect(port, '127.0.0.1');
      const send = (): void => {
        while (socket.write(ahead));
      };
      socket.on('drain', send).on('error', () => undefined);
      send();
      await new Promise((resolve) => socket.once('close', resolve));
    });
    expect(await (await fetch(`http://127.0.0.1:${port}/livez`)).text()).toBe('ok');
    await Promise.all(closed);
    expect(await (await fetch(`http://127.0.0.1:${port}/livez`)).text()).toBe('ok');
    expect(megabytes('VmHWM') - idle).toBeLessThan(64);
  } finally {
    child.kill('SIGKILL');
  }
});
