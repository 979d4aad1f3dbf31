// A key and its public keys in PEM files of this host as a layout. These files are never written: every token that was
// signed with the key would be worthless with another one.
import { RecoveryError } from '../errors.ts';
import type { LocationOf } from '../inventory/model.ts';
import { filesOf } from '../inventory/places.ts';
import type { Layout } from './disk-layout.ts';
import { locationText } from './store.ts';

const newline = Buffer.from('\n');

/** An empty file, as a loss of power leaves it, counts as absent. */
export function keyFilesLayout(location: LocationOf<'keyFiles'>): Layout {
  return {
    look: async (read) =>
      Promise.all(
        filesOf(location).map(async ({ entry, file }) => ({ role: entry ?? '', file, bytes: await read(file) })),
      ),
    understand(parts) {
      // Public keys of several files are one list, as for kube-apiserver.
      const entries = [...Map.groupBy(parts, ({ role }) => role)].flatMap(([role, all]) => {
        const texts = all.flatMap(({ bytes }) => (bytes === undefined ? [] : [bytes, newline]));
        return texts.length === 0 ? [] : [[role, Buffer.concat(texts)] as const];
      });
      const missing = parts.flatMap(({ file, bytes }) => {
        if (bytes === undefined) return [`"${file}" is absent`];
        if (bytes.length === 0) return [`"${file}" is empty`];
        return Buffer.from(bytes).includes('-----BEGIN ') ? [] : [`"${file}" holds no key`];
      });
      const problem = missing.length === 0 ? {} : { problem: missing.join(', ') };
      return { entries: Object.fromEntries(entries), ...problem };
    },
    async change() {
      throw new RecoveryError('WriteFailed', `Cannot write ${locationText(location)}: it is only ever read`);
    },
    putBack: () => [],
  };
}
