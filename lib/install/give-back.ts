// `uninstall --give-back`: makes plain files of the objects that the syncer has published, at the same paths and with
// the same bytes, for whatever writes them next. No path is ever absent, so components may run. It comes after the
// syncer's rights are gone: a syncer that may still read the API would take the files over again.
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Resolved } from '../inventory/model.ts';
import { dataLink } from '../publish/scan.ts';
import { giveBack } from '../publish/take-away.ts';
import { locationText } from '../store/store.ts';
import { isFile } from '../inventory/places.ts';

export interface GiveBackOptions {
  readonly resolved: Resolved;
  /** Where the syncer wrote to. */
  readonly destinationDir: string;
  readonly dryRun?: boolean;
}

/** The directories whose links became (with dryRun: would become) plain files. Throws WriteFailed. */
export async function giveBackFiles({ resolved, destinationDir, dryRun = false }: GiveBackOptions): Promise<string[]> {
  const given: string[] = [];
  for (const { location, published } of resolved.artefacts) {
    if (published === undefined || isFile(location)) continue;
    const [folder, mode] =
      location.kind === 'secret' ? (['secrets', 0o600] as const) : (['configmaps', 0o644] as const);
    const directory = join(destinationDir, folder, location.name);
    if (!(await isPublished(directory))) continue;
    if (!dryRun) await giveBack({ directory, what: locationText(location), mode });
    given.push(directory);
  }
  return given;
}

function isPublished(directory: string): Promise<boolean> {
  return lstat(join(directory, dataLink)).then(
    () => true,
    () => false,
  );
}
