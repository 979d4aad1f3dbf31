// Before the first end-to-end test: everything that nodes are made of. After the last: nothing is left of it.
import type { TestProject } from 'vitest/node';
import { openWorkshop, type Workshop } from './workshop.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    readonly workshop: Workshop;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const open = await openWorkshop();
  project.provide('workshop', open.workshop);
  return async () => open[Symbol.asyncDispose]();
}
