// The first generation is made as a renewal is: the same chains, the same checks.
import { describe, expect, it } from 'vitest';
import { makeGeneration } from '../../lib/install/first-generation.ts';
import { parseCertificates } from '../../lib/pki/certificate.ts';
import type { Material } from '../../lib/store/store.ts';
import { shared } from '../support/cluster/shared-store.ts';

const keyAlgorithm = { name: 'ECDSA', curve: 'P-256' } as const;
const now = new Date('2026-01-01T00:00:00Z');

async function render(existing: ReadonlyMap<string, Material> = new Map()): Promise<Map<string, Material>> {
  const made = new Map<string, Material>();
  for await (const { artefact, material } of makeGeneration({ resolved: shared, now, keyAlgorithm, existing })) {
    made.set(artefact.name, material);
  }
  return made;
}

function prints(made: ReadonlyMap<string, Material>, name: string): string[] {
  const pem = made.get(name)?.entries['tls.crt'] ?? new Uint8Array();
  return parseCertificates(pem, name).map(({ facts }) => facts.fingerprint);
}

describe('makeGeneration()', () => {
  it('sends an intermediate and the root above it along with a server, the intermediate alone with a client', async () => {
    const made = await render();
    expect(prints(made, 'sub-serving').slice(1)).toEqual([...prints(made, 'sub'), ...prints(made, 'top')]);
    expect(prints(made, 'middle-client').slice(1)).toEqual(prints(made, 'middle'));
  });

  it('refuses to complete a generation whose bundle is of another signer', async () => {
    const stale = (await render()).get('long-ca');
    if (stale === undefined) throw new Error('no bundle');
    await expect(render(new Map([['long-ca', stale]]))).rejects.toThrow('ConfigMap "ns/long-ca" would not verify it');
  });
});
