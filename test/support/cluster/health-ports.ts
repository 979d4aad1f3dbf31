// Imported for its effect: this process and those that it starts have our containers' health on ports of their own.
// Those of the product are the same on every machine, and here there are many machines on one.
import { staticPods } from '../../../lib/components.ts';
import { podContainers } from '../../../lib/install/accounts.ts';
import { freePorts } from './ports.ts';

const name = 'TEST_HEALTH_PORTS';
process.env[name] ??= JSON.stringify(await freePorts(staticPods.length));
const ports = JSON.parse(process.env[name]) as readonly number[];
for (const [at, pod] of staticPods.entries()) Object.assign(podContainers[pod], { healthPort: ports[at] });
