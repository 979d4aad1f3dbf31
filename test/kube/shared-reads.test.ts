import { expect, it } from 'vitest';
import type { KubeRequest } from '../../lib/kube/kube.ts';
import { sharingReads } from '../../lib/kube/shared-reads.ts';

/** Requests wait until they are answered, in their order. */
function connection() {
  const asked: { readonly path: string; readonly settle: (answer: Promise<string>) => void }[] = [];
  const shared = sharingReads({
    request: <T>({ path }: KubeRequest) =>
      new Promise<string>((settle) => void asked.push({ path, settle })) as Promise<T>,
  });
  const { signal } = new AbortController();
  const read = (path: string, by = signal): Promise<string> => shared.request({ method: 'GET', path, signal: by });
  return { asked, read };
}

it('sends a read once while its answer is on its way, and anew afterwards', async () => {
  const { asked, read } = connection();
  const both = [read('/a'), read('/a')];
  const other = read('/b');
  expect(asked.map(({ path }) => path)).toEqual(['/a', '/b']);
  asked[0]?.settle(Promise.resolve('one'));
  asked[1]?.settle(Promise.resolve('other'));
  expect(await Promise.all([...both, other])).toEqual(['one', 'one', 'other']);
  const later = read('/a');
  asked[2]?.settle(Promise.resolve('two'));
  expect(await later).toBe('two');
});

it('tells a failure to all, and keeps none', async () => {
  const { asked, read } = connection();
  const both = Promise.allSettled([read('/a'), read('/a')]);
  asked[0]?.settle(Promise.reject(new Error('away')));
  expect((await both).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  const later = read('/a');
  asked[1]?.settle(Promise.resolve('one'));
  expect(await later).toBe('one');
});

it('lets nobody be ended by the signal of another', async () => {
  const { asked, read } = connection();
  void read('/a');
  void read('/a', new AbortController().signal);
  expect(asked).toHaveLength(2);
});
