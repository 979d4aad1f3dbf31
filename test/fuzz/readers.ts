// Everything that reads what others may have written.
import type { FuzzedReader } from './fuzz.ts';
import { readersOfApi } from './readers-of-api.ts';
import { readersOfDisk } from './readers-of-disk.ts';

export const readers: readonly FuzzedReader[] = [...readersOfApi, ...readersOfDisk];
