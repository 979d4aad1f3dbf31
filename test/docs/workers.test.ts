// Holds docs/workers.md against the units of a worker, and against the messages and names of the code.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { expiredCertificateAnnotation } from '../../lib/bootstrap-identity.ts';
import { accountName, tokenSecretName } from '../../lib/install/accounts.ts';
import { defaultDirectory, hostLayout, workerTokenFile } from '../../lib/install/layout.ts';
import { renderWorker } from '../../lib/install/worker-units.ts';
import { firstCodes, page, root, section } from './markdown.ts';

const text = page('docs/workers.md');
const flat = text.replaceAll(/\s+/g, ' ');
const units = renderWorker({ executable: '/k', flags: [], writable: [], unitDirectory: '' });
const content = units.map((unit) => unit.content).join('');
const number = (pattern: RegExp): number => Number(pattern.exec(content)?.[1]);

describe('docs/workers.md', () => {
  it('names the units, the token and what a request shows', () => {
    expect(firstCodes(section(text, 'Once')).toSorted()).toEqual(units.map(({ path }) => path.slice(1)).toSorted());
    for (const name of [workerTokenFile(hostLayout(defaultDirectory)), expiredCertificateAnnotation]) {
      expect(text).toContain(`\`${name}\``);
    }
    for (const name of [accountName('worker'), tokenSecretName('worker')]) expect(text).toContain(name);
  });

  it('says how long a start of the kubelet may wait, and the service', () => {
    const seconds = number(/--kill-after=(\d+)s/) + number(/--kill-after=\d+s (\d+)s/);
    expect(flat).toContain(`for at most ${seconds} s`);
    expect(flat).toContain(`${number(/--wait=(\d+)s/)} seconds before a start of the kubelet`);
    expect(flat).toContain(`${number(/--wait=(\d+)m/)} minutes in the service`);
  });

  it('quotes messages that there are', () => {
    const rooms = ['lib/origin', 'lib/plan', 'lib/inventory/discover'];
    const code = rooms.flatMap((room) => readdirSync(join(root, room)).map((file) => page(join(room, file))));
    const quoted = firstCodes(section(text, 'What happens'));
    expect(quoted.filter((words) => !code.some((file) => file.includes(words)))).toEqual([]);
    expect(quoted.length).toBeGreaterThan(5);
  });
});
