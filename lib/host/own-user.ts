// Whether the user of this process owns the lock, the notes and the copies of this host. Checked before anything else
// is tried: a user other than root gets one error, not one for each unreadable file.
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { RecoveryError, systemCode } from '../errors.ts';

type User = () => number | undefined;

const thisUser: User = () => process.getuid?.();

/** Throws WriteFailed where the lock belongs to another user, or cannot be created by this one. */
export async function requireOwnLock(lockDir: string, user: User = thisUser): Promise<void> {
  const uid = user();
  if (uid === undefined || uid === 0) return;
  const there = await stat(lockDir).catch(() => undefined);
  const isOwn = there === undefined ? await mayMake(lockDir) : there.uid === uid;
  if (isOwn) return;
  const whose = there === undefined ? 'cannot be made' : `belong to user ${there.uid}`;
  throw new RecoveryError(
    'WriteFailed',
    `Cannot repair this host as user ${uid}: its lock and notes in "${lockDir}" ${whose}; run it as root`,
  );
}

/** Whether the nearest existing parent is writable. */
async function mayMake(path: string): Promise<boolean> {
  const parent = dirname(path);
  const state = await access(parent, constants.W_OK).then(() => 'open', systemCode);
  return state === 'ENOENT' && parent !== path ? mayMake(parent) : state === 'open';
}

/** Throws ReadFailed where this user cannot read the backups. */
export async function requireReadable(directory: string, user: User = thisUser): Promise<void> {
  const uid = user();
  if (uid === undefined || uid === 0) return;
  const state = await access(directory, constants.R_OK | constants.X_OK).then(() => 'open', systemCode);
  if (state !== 'EACCES' && state !== 'EPERM') return;
  throw new RecoveryError(
    'ReadFailed',
    `Cannot look at the copies in "${directory}": permission denied; run it as root`,
  );
}
