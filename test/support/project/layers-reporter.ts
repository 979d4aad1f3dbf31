// Ends a run of `npm test` with one line that says what it has proven.
import { relative } from 'node:path';
import type { Reporter, TestModule, Vitest } from 'vitest/node';
import { conclusion, type LayerOutcome } from './layers.ts';

export class LayersReporter implements Reporter {
  readonly #began = performance.now();
  #root = '';

  onInit({ config }: Vitest): void {
    this.#root = config.root;
  }

  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const outcomes = modules.map((module): LayerOutcome => {
      const tests = [...module.children.allTests('passed')].length;
      const skipped = [...module.children.allTests('skipped')].length;
      const passed = module.ok() && skipped === 0 && tests > 0 && errors.length === 0;
      return { project: module.project.name, file: relative(this.#root, module.moduleId), passed, tests };
    });
    const line = conclusion(outcomes, (performance.now() - this.#began) / 1000);
    // What is prepared for tests is taken away after this: the line is the last one all the same.
    process.once('exit', () => process.stdout.write(`${line}\n`));
  }
}
