// A process that serves health and metrics, and prints its port. Its parent ends it.
import { systemClock } from '../../../lib/clock.ts';
import { Health, serveHealth } from '../../../lib/health.ts';
import { createMetrics } from '../../../lib/metrics.ts';

const health = new Health();
health.set('loop', { ok: true }, 'liveness');
const metrics = await createMetrics({ clock: systemClock, version: '9', modes: [] });
const { signal } = new AbortController();
const address = { host: '127.0.0.1', port: 0 };
const { port } = await serveHealth({ address, health, metrics, clock: systemClock, signal });
process.stdout.write(`${port}\n`);
