import { beforeEach, describe, expect, it } from 'vitest';
import { OtherRequesters } from '../../lib/approver/other-requesters.ts';
import type { SigningRequest } from '../../lib/approver/request.ts';
import { kubeletClientSigner } from '../../lib/bootstrap-identity.ts';

const minute = 60_000;
let others: OtherRequesters;
beforeEach(() => (others = new OtherRequesters()));

function request(name: string, username: string, conditions: readonly string[] = []): SigningRequest {
  return {
    metadata: { name, uid: `uid of ${name}` },
    spec: { request: '', signerName: kubeletClientSigner, username },
    status: { conditions: conditions.map((type) => ({ type, status: 'True' })) },
  };
}

describe('OtherRequesters', () => {
  it('reports a request that nobody has decided in a minute', () => {
    others.see(request('a', 'x'), 5);
    expect(others.dueInMs(5)).toBe(minute);
    expect(others.due(minute)).toEqual([]);
    expect(others.due(minute + 5)).toMatchObject([{ name: 'a', uid: 'uid of a', username: 'x' }]);
    expect(others.dueInMs(minute + 5)).toBeUndefined();
  });

  it('reports a requester once, however many it sends and however often they are listed', () => {
    for (const name of ['a', 'b', 'c']) others.see(request(name, 'x'), 0);
    expect(others.due(minute)).toHaveLength(1);
    for (const name of ['a', 'b', 'c', 'd']) others.see(request(name, 'x'), 2 * minute);
    expect(others.due(10 * minute)).toEqual([]);
  });

  it.each(['Approved', 'Denied', 'Failed'])('has nothing to say of one that was %s in time', (condition) => {
    others.see(request('a', 'x'), 0);
    others.see(request('a', 'x', [condition]), 10);
    expect(others.due(2 * minute)).toEqual([]);
  });

  it('has nothing to say of one that was deleted; the next of its name has a minute of its own', () => {
    others.see(request('a', 'x'), 0);
    others.remove('a');
    others.see(request('a', 'x'), minute - 1);
    expect(others.due(minute)).toEqual([]);
    expect(others.due(2 * minute)).toHaveLength(1);
  });

  it('takes one that was made again under its name for another', () => {
    others.see(request('a', 'x'), 0);
    const again = request('a', 'x');
    others.see({ ...again, metadata: { name: 'a', uid: 'new' } }, minute - 1);
    expect(others.due(minute)).toEqual([]);
    expect(others.due(2 * minute)).toMatchObject([{ uid: 'new' }]);
  });

  it('remembers no more than a hundred', () => {
    for (let at = 0; at < 10_000; at += 1) others.see(request(`a${at}`, `x${at}`), 0);
    expect(others.due(minute)).toHaveLength(100);
    for (let at = 10_000; at < 20_000; at += 1) others.see(request(`a${at}`, `x${at}`), minute);
    expect(others.due(3 * minute)).toEqual([]);
  });
});
