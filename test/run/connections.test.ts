import { describe, expect, it } from 'vitest';
import { addressOf, connect } from '../../lib/run/connections.ts';
import { systemClock } from '../../lib/clock.ts';
import { createLog } from '../../lib/log.ts';

const log = createLog({ write: () => undefined });
const { signal } = new AbortController();

describe('connect()', () => {
  it.each([{ once: true }, {}])(
    'refuses a kubeconfig that cannot be used for what ends by itself: %j',
    async (config) => {
      const connecting = { config, clock: systemClock, log, signal };
      await expect(connect('/nonexistent/kubeconfig', connecting)).rejects.toMatchObject({ code: 'ConfigInvalid' });
    },
  );

  it('waits for it where modes run on', async () => {
    const connecting = { config: { once: false }, clock: systemClock, log, signal };
    const connection = await connect('/nonexistent/kubeconfig', connecting);
    expect(connection.files).toEqual(['/nonexistent/kubeconfig']);
    expect(() => addressOf({}, connection).host).toThrow('the address of the API server is unknown');
    await connection.close();
  });
});

describe('addressOf()', () => {
  it('is that of the configuration, else that of the kubeconfig at the time of asking', () => {
    const connection = { server: 'https://10.0.0.1:6443' };
    const address = addressOf({}, connection);
    expect({ ...address }).toEqual({ host: '10.0.0.1', port: 6443 });
    connection.server = 'https://[::1]';
    expect({ ...address }).toEqual({ host: '::1', port: 443 });
    expect({ ...addressOf({ apiServerAddress: { host: 'a', port: 1 } }, connection) }).toEqual({ host: 'a', port: 1 });
  });
});
