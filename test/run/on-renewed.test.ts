// The command after renewals, as a real process.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { createLog } from '../../lib/log.ts';
import { runOnRenewed } from '../../lib/run/on-renewed.ts';
import type { RegenRun } from '../../lib/run/regen-run.ts';

async function renewed(directory: string, script: string): Promise<Record<string, unknown>[]> {
  const command = join(directory, 'command');
  await writeFile(command, `#!/bin/sh\n${script}\n`, { mode: 0o700 });
  const lines: Record<string, unknown>[] = [];
  const log = createLog({ write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) });
  const mode = { onRenewed: command, lockDir: join(directory, 'lock'), backupDir: join(directory, 'backups') };
  const { signal } = new AbortController();
  const runtime = { clock: systemClock, log, resolved: { artefacts: [] }, hostName: 'node1', signal };
  const report = { artefacts: [{ artefact: 'admin.conf', writes: 1 }] };
  await runOnRenewed({ mode, runtime, report } as unknown as RegenRun, true, signal);
  return lines;
}

it('runOnRenewed() drops what the command prints, however much that is', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'renewed-'));
  try {
    const script = `head -c 20000000 /dev/zero\nhead -c 20000000 /dev/zero >&2\nenv >${directory}/env`;
    expect(await renewed(directory, script)).toMatchObject([{ event: 'command.done', count: 1 }]);
    const env = await readFile(join(directory, 'env'), 'utf8');
    expect(env).toMatch(/^KUBE_CERT_RECOVERY_RENEWED=admin\.conf$/m);
    expect(env).toMatch(/^KUBE_CERT_RECOVERY_NODE=node1$/m);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
