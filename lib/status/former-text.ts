// Text about a component that runs with a former version of a file, with the command that restarts it. Pure.
import { starterOf, starters } from '../components.ts';
import type { FormerFile } from '../restart/loaded.ts';

/** Whether only a time decides its restart, and no Lease. A service restart waits: one machine after the other. */
export const isRestartedByItself = ({ restartsAt, isService }: FormerFile): boolean =>
  restartsAt !== undefined && !isService;

/** One sentence: the process, its state, and the command. */
export function formerText(one: FormerFile): string {
  const { artefact, component, process, file, state, changedAt, until } = one;
  const who = `${component} (process ${process.pid})`;
  const written = `${file} was written ${changedAt.toISOString()}`;
  const does = state === 'former' ? 'has not loaded it' : 'started before, and what it has loaded is not known';
  const end = until === undefined ? '' : `; what it has ends ${until.toISOString()}`;
  return `${artefact}: ${written}, and ${who} ${does}${end}. Restart it: ${restartCommand(one)}`;
}

export const restartCommand = ({ component, process, isService }: FormerFile): string =>
  (isService ? starters.systemd : starterOf(component)).command(component, process.pid);
