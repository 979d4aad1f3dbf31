// Imported for its effect: this process and those that it starts have our containers' health on ports of their own.
// Those of the product are the same on every machine, and here there are many machines on one.
import { healthPorts } from '../../../lib/adopt/static-pods.ts';
import { staticPods } from '../../../lib/install/accounts.ts';
import { freePorts } from './ports.ts';

const name = 'TEST_HEALTH_PORTS';
process.env[name] ??= JSON.stringify(await freePorts(staticPods.length));
const ports = JSON.parse(process.env[name]) as readonly number[];
Object.assign(healthPorts, Object.fromEntries(staticPods.map((pod, at) => [pod, ports[at]])));
