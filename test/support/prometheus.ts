// A real Prometheus with the alerts of this project, each of which fires at once, and what it answers. Its targets are scraped
// each second.
import { writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect } from 'vitest';
import { toYaml } from '../../lib/yaml.ts';
import { alerts, ruleFile } from '../../scripts/monitoring.ts';
import { freePorts } from './cluster/ports.ts';
import { SupervisedProcess } from './cluster/process.ts';
import { eventually } from './eventually.ts';

export interface Job {
  readonly name: string;
  /** On this machine. */
  readonly port: number;
  /** Further fields of the job. */
  readonly more?: object;
}

type Series = { readonly metric: Readonly<Record<string, string>> };

export class Prometheus implements AsyncDisposable {
  readonly #url: string;
  readonly #process: SupervisedProcess;

  private constructor(url: string, process: SupervisedProcess) {
    this.#url = url;
    this.#process = process;
  }

  /** `directory`: its configuration and its data. */
  static async start(directory: string, jobs: readonly Job[]): Promise<Prometheus> {
    const at = (name: string): string => join(directory, name);
    const scraped = jobs.map(({ name, port, more }) => ({
      job_name: name,
      ...more,
      static_configs: [{ targets: [`127.0.0.1:${port}`] }],
    }));
    const every = { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' };
    const configuration = { global: every, rule_files: ['rules.yaml'], scrape_configs: scraped };
    await writeFile(at('prometheus.yml'), toYaml(configuration));
    await writeFile(at('rules.yaml'), ruleFile(alerts.map((alert) => ({ ...alert, for: '0s' }))));
    const [port = 0] = await freePorts(1);
    const process = new SupervisedProcess({
      name: 'prometheus',
      command: 'prometheus',
      args: [
        `--config.file=${at('prometheus.yml')}`,
        `--storage.tsdb.path=${at('data')}`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      logFile: at('prometheus.log'),
    });
    return new Prometheus(`http://127.0.0.1:${port}/api/v1`, process);
  }

  async ask(expr: string): Promise<readonly Series[]> {
    const response = await fetch(`${this.#url}/query?query=${encodeURIComponent(expr)}`);
    const { data } = (await response.json()) as { readonly data: { readonly result: readonly Series[] } };
    return data.result;
  }

  /** Alerts that fire, as `name severity artefact`, or the job in place of an artefact. */
  async firing(): Promise<readonly string[]> {
    return (await this.ask('ALERTS{alertstate="firing"}'))
      .map(({ metric }) =>
        `${metric['alertname']} ${metric['severity']} ${metric['artefact'] ?? metric['job'] ?? ''}`.trim(),
      )
      .toSorted();
  }

  /** Resolves when these fire, and no others. */
  async fires(...wanted: readonly string[]): Promise<void> {
    const options = { withinMs: 30_000, everyMs: 300 };
    await eventually(async () => expect(await this.firing()).toEqual(wanted.toSorted()), options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process.kill();
  }
}

/** Serves a text file as node_exporter does; nothing while it cannot be read. */
export async function serveTextFile(read: () => Promise<string>): Promise<AsyncDisposable & { readonly port: number }> {
  const server: Server = createServer((_, response) => {
    void read().then(
      (text) => response.setHeader('content-type', 'text/plain; version=0.0.4').end(text),
      () => response.end(''),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
