// Before the first integration test: all control-plane binaries, so that a first run shows what it builds and no test's
// time limit has to allow for it.
import { findBinaries } from './binaries.ts';
import { componentNames } from './components.ts';

export default async function setup(): Promise<void> {
  await findBinaries([...componentNames, 'kubectl']);
}
