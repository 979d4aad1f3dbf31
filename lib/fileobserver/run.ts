// The loop of the observer: disk -> observe -> react -> prove. It watches the files of every published artefact (and of
// artefacts whose location is on disk), logs changes, and reacts to each artefact on its own, so that a slow proof
// blocks no other.
import type { Health } from '../health.ts';
import type { Metrics } from '../metrics.ts';
import type { Resolved } from '../inventory/model.ts';
import type { Running } from '../log.ts';
import { filesOfReaders, pathsOf } from '../inventory/places.ts';
import { observeFiles, reportChanges } from './observe.ts';
import { Reactor, type ReactorOptions } from './react.ts';

interface FileObserverOptions extends Running, Pick<ReactorOptions, 'prove' | 'restart'> {
  readonly resolved: Resolved;
  /** Directory into which the syncer publishes. */
  readonly destinationDir: string;
  /** A missing proof is a remark there, no failure: some proofs need actions of other clients. */
  readonly health?: Pick<Health, 'set'>;
  readonly metrics?: Pick<Metrics, 'set'>;
}

/** Runs until the signal aborts. */
export async function runFileObserver(options: FileObserverOptions): Promise<void> {
  const { resolved, destinationDir, log, health, metrics } = options;
  const reactors = resolved.artefacts.flatMap((artefact) => {
    const files = filesOfReaders({ artefact, artefacts: resolved.artefacts, destinationDir });
    return files === undefined ? [] : [new Reactor({ ...options, artefact, files })];
  });
  const artefacts = reactors.map(({ files }) => files);
  const readersOf = (path: string): Reactor[] => reactors.filter(({ files }) => pathsOf(files).includes(path));
  const unproven = (): Reactor[] => reactors.filter(({ isPending }) => isPending);
  metrics?.set('kube_cert_recovery_unproven', () => unproven().length);
  health?.set('files-in-use', () => {
    const pending = unproven().map(({ name }) => name);
    return { ok: true, ...(pending.length > 0 && { message: `not yet proven: ${pending.join(', ')}` }) };
  });
  const observe = async (): Promise<void> => {
    for await (const { changes, inspected } of observeFiles({ ...options, artefacts })) {
      reportChanges(log, changes);
      for (const { change, path, at } of changes) {
        const since = change === 'found' ? 'found' : 'changed';
        for (const reactor of readersOf(path)) reactor.notice(since, at, inspected.get(reactor.files));
      }
    }
  };
  await Promise.all([observe(), ...reactors.map((reactor) => reactor.run())]);
}
