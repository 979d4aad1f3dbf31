// What is remembered of each node's certificates from the requests that pass by.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Records } from '../../lib/approver/records.ts';
import type { SigningRequest } from '../../lib/approver/request.ts';
import { kubeletClientSigner } from '../../lib/bootstrap-identity.ts';
import { bootstrapRequester } from '../../lib/bootstrap-identity.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import { kubeletRequest } from '../support/certificates/requests.ts';

const requester = bootstrapRequester('ns');
const base64 = (text: string): string => Buffer.from(text).toString('base64');
const notBefore = new Date('2026-01-01T00:00:00Z');
const [early, late] = [new Date('2026-03-01T00:00:00Z'), new Date('2026-04-01T00:00:00Z')] as const;

let root: string;
let asked: string;
/** Ends with the late one, and began later. */
let sameEnd: string;
const certificates = new Map<Date, string>();
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'records-'));
  const ca = await createAuthority(join(root, 'ca'), { commonName: 'ca' });
  for (const notAfter of [early, late]) {
    const names = { commonName: 'system:node:panda', organization: 'system:nodes' };
    const { cert } = await createLeaf(join(root, notAfter.toISOString()), ca, { ...names, notBefore, notAfter });
    certificates.set(notAfter, await readFile(cert, 'utf8'));
  }
  const last = { commonName: 'system:node:panda', organization: 'system:nodes', notBefore: early, notAfter: late };
  sameEnd = await readFile((await createLeaf(join(root, 'last'), ca, last)).cert, 'utf8');
  asked = await kubeletRequest('panda');
});
afterAll(() => rm(root, { recursive: true, force: true }));

let records: Records;
let clock: FakeClock;
beforeEach(() => {
  clock = new FakeClock('2026-01-01T01:00:00Z');
  records = new Records([requester], clock);
});

interface Seen {
  readonly uid?: string;
  readonly minute?: number;
  readonly issued?: string | undefined;
  readonly spec?: Partial<SigningRequest['spec']>;
  readonly conditions?: readonly string[];
}

const at = (minute: number): Date => new Date(Date.UTC(2026, 0, 1, 0, minute));

function request({ uid = 'u1', minute = 0, issued, spec, conditions = ['Approved'] }: Seen): SigningRequest {
  return {
    metadata: { name: uid, uid, creationTimestamp: at(minute).toISOString() },
    spec: { request: base64(asked), signerName: kubeletClientSigner, usages: [], ...requester, ...spec },
    status: {
      conditions: conditions.map((type) => ({ type, status: 'True', lastUpdateTime: at(minute + 1).toISOString() })),
      ...(issued !== undefined && { certificate: base64(issued) }),
    },
  };
}

describe('Records', () => {
  it('keeps the end of the newest certificate, whoever asked for it and in whatever order they are seen', () => {
    const spec = { username: 'system:node:panda', groups: ['system:nodes'] };
    records.see(request({ issued: certificates.get(late), spec }));
    records.see(request({ issued: certificates.get(early) }));
    expect(records.of('panda').issuedUntil).toEqual(late);
  });

  it('takes of two that end together the one that began last, in whatever order they are seen', () => {
    const both = [certificates.get(late), sameEnd].map((issued) => records.see(request({ issued })));
    expect(records.of('panda').issuedKey).toBe(both[1]?.key);
    // Seen alone, it is none to be recorded, or the record would go back to it.
    expect(records.see(request({ issued: certificates.get(late) }))).toBeUndefined();
    expect(records.of('panda').issuedKey).toBe(both[1]?.key);
  });

  it('tells that newer ones may have gone unseen where the requests were not followed for an hour', () => {
    const minute = 60_000;
    const issued = (): void => void records.see(request({ issued: certificates.get(early) }));
    const isDoubted = (): boolean => records.of('panda').issuedUnseen === true;
    issued();
    for (let passed = 0; passed < 180; passed += 40) {
      records.followed();
      clock.advance(40 * minute);
      expect(isDoubted()).toBe(false);
    }
    clock.advance(20 * minute);
    expect(isDoubted()).toBe(true);
    records.followed();
    expect(isDoubted()).toBe(true);
    issued();
    records.followed();
    expect(isDoubted()).toBe(false);
    expect(records.of('panda').issuedUntil).toEqual(early);
  });

  it('keeps the newest approved request of the bootstrap identity, before and after it is answered', () => {
    records.see(request({ uid: 'u2', minute: 5 }));
    records.see(request({ uid: 'u1', minute: 3, issued: certificates.get(early) }));
    const approval = { uid: 'u2', at: at(6), requestedAt: at(5), isIssued: false, knownMs: 0 };
    expect(records.of('panda').approval).toEqual(approval);
    clock.advance(2000);
    records.see(request({ uid: 'u2', minute: 5, issued: certificates.get(late) }));
    expect(records.of('panda').approval).toMatchObject({ uid: 'u2', isIssued: true, knownMs: 2000 });
  });

  it('replaces one that was asked for by a clock that has been set back since', () => {
    const ahead = 365 * 24 * 60;
    records.see(request({ uid: 'u1', minute: ahead }));
    records.see(request({ uid: 'u2', minute: 5 }));
    expect(records.of('panda').approval).toMatchObject({ uid: 'u2' });
  });

  it.each(['2025-01-01', '2027-01-02'])('keeps the newer of two by a clock that shows %s', (shown) => {
    clock.set(shown);
    const ahead = 365 * 24 * 60;
    records.see(request({ uid: 'u1', minute: ahead + 5 }));
    records.see(request({ uid: 'u2', minute: ahead }));
    expect(records.of('panda').approval).toMatchObject({ uid: 'u1' });
  });

  it.each<[string, Seen]>([
    ['waits', { conditions: [] }],
    ['was denied', { conditions: ['Approved', 'Denied'] }],
    ['is of another signer', { spec: { signerName: 'kubernetes.io/kubelet-serving' } }],
    ['was made by somebody else', { spec: { username: 'kubernetes-admin' } }],
    ['cannot be read', { spec: { request: 'eA==' } }],
  ])('remembers no approval of a request that %s', (_what, seen) => {
    records.see(request(seen));
    expect(records.of('panda')).toEqual({});
  });

  it('passes over a certificate that is none', () => {
    records.see(request({ issued: 'nonsense', spec: { username: 'x' } }));
    expect(records.of('panda')).toEqual({});
  });
});
