// Units of systemd that start components, with their drop-ins and environment files. Impure: it reads files, and
// nothing else.
import { basename, dirname, join, matchesGlob } from 'node:path';
import { componentNames } from '../../components.ts';
import { argumentsOf } from './component-arguments.ts';
import type { ComponentCommand } from './component-settings.ts';
import type { MachineFiles } from './machine-files.ts';
import { environmentFile, serviceUnit, type ServiceUnit, unitsNamedBy, withVariables } from './unit-files.ts';

/** Directories of units; the first unit of a name beats the rest (systemd.unit(5)). */
const unitDirectories = [
  '/etc/systemd/system',
  '/run/systemd/system',
  '/usr/local/lib/systemd/system',
  '/usr/lib/systemd/system',
  '/lib/systemd/system',
];

interface UnitCommands {
  /** Command by component, from the first unit that starts it. */
  readonly started: ReadonlyMap<string, ComponentCommand>;
  /** Command by component, from a unit of its name that starts another program, which may start it unseen. */
  readonly hidden: ReadonlyMap<string, ComponentCommand>;
}

export async function unitsThatStart(files: MachineFiles): Promise<UnitCommands> {
  const started = new Map<string, ComponentCommand>();
  const hidden = new Map<string, ComponentCommand>();
  const present = await firstOfName(unitDirectories, files);
  const wanted = await wantedUnits(present, files);
  const units = withInstances(present, wanted);
  for (const name of startOrder(units)) {
    // A unit that nothing wants is a leftover.
    if (!wanted.has(name)) continue;
    const unit = await readUnit(name, units.get(name) ?? '', files);
    if (unit === undefined) continue;
    const paths = await Promise.all(unit.environmentFiles.map((file) => filesOfPattern(file, files)));
    const texts = await Promise.all(paths.flat().map((file) => files.text(file)));
    const variables = new Map([...unit.environment, ...texts.flatMap((text) => [...environmentFile(text ?? '')])]);
    const words = withVariables(unit.command, variables);
    const component = componentNames.find((one) => argumentsOf(one, words, variables) !== undefined);
    const { workingDirectory } = unit;
    const command = { words, variables, mounts: [], source: units.get(name) ?? name, workingDirectory };
    const [own = ''] = name.split(/[@.]/);
    if (component !== undefined && !started.has(component)) started.set(component, command);
    else if (component === undefined && !hidden.has(own)) hidden.set(own, command);
  }
  return { started, hidden };
}

/** Returns paths by name; the first of a name counts, also a masked one. */
async function firstOfName(directories: readonly string[], files: MachineFiles): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  for (const directory of directories) {
    for (const name of await files.names(directory)) if (!found.has(name)) found.set(name, `${directory}/${name}`);
  }
  return found;
}

/** Returns units named like a component first, then units of the administrator, and packages' with similar names. */
function startOrder(units: ReadonlyMap<string, string>): readonly string[] {
  const services = [...units].flatMap(([name, path]) =>
    name.endsWith('.service') && (dirname(path) === unitDirectories[0] || /kube|etcd/.test(name)) ? [name] : [],
  );
  const own = componentNames.map((component) => `${component}.service`).filter((name) => services.includes(name));
  return [...new Set([...own, ...services.toSorted()])];
}

/** Adds the instances of templates that are wanted: kubelet@main.service is started from kubelet@.service. */
function withInstances(units: ReadonlyMap<string, string>, wanted: ReadonlySet<string>): ReadonlyMap<string, string> {
  const instances = [...wanted].flatMap((name): [string, string][] => {
    const path = units.has(name) ? undefined : units.get(templateOf(name));
    return path === undefined ? [] : [[name, path]];
  });
  return new Map([...units, ...instances]);
}

const templateOf = (name: string): string => name.replace(/^([^@]*@).+(\.service)$/, '$1$2');

/** Returns the paths that match a pattern of EnvironmentFile=, in their order (glob(7), in the name of the file). */
async function filesOfPattern(path: string, files: MachineFiles): Promise<readonly string[]> {
  const pattern = basename(path);
  if (!/[*?[]/.test(pattern)) return [path];
  const names = await files.names(dirname(path));
  return names.filter((name) => matchesGlob(name, pattern)).map((name) => join(dirname(path), name));
}

/** Returns the units that a directory of systemd names, and the units they need. */
async function wantedUnits(units: ReadonlyMap<string, string>, files: MachineFiles): Promise<ReadonlySet<string>> {
  const directories = (await files.directories('/etc/systemd/system')).filter((name) =>
    /\.(wants|requires)$/.test(name),
  );
  const names = await Promise.all(directories.map((name) => files.names(`/etc/systemd/system/${name}`)));
  // Another program may start the kubelet's. A set is walked with its additions on the way.
  const wanted = new Set([...names.flat(), 'kubelet.service']);
  for (const name of wanted) {
    const path = units.get(name) ?? units.get(templateOf(name));
    const texts = path === undefined ? [] : await textsOfUnit(name, path, files);
    for (const needed of texts.flatMap(unitsNamedBy)) wanted.add(needed);
  }
  return wanted;
}

/** Returns a unit with its drop-ins; undefined where it is masked (a link to /dev/null) or starts no component. */
async function readUnit(name: string, path: string, files: MachineFiles): Promise<ServiceUnit | undefined> {
  const texts = await textsOfUnit(name, path, files);
  const [unit] = texts;
  return unit === undefined || !/kube|etcd/.test(name + unit) ? undefined : serviceUnit(name, texts);
}

/** Returns the texts of a unit and its drop-ins, in the order in which systemd reads them; none for a masked one. */
async function textsOfUnit(name: string, path: string, files: MachineFiles): Promise<readonly string[]> {
  const textOf = async (file: string): Promise<string | undefined> =>
    (await files.link(file)) === '/dev/null' ? undefined : files.text(file);
  const unit = await textOf(path);
  if (unit === undefined) return [];
  const beside = [name, templateOf(name)].flatMap((one) => unitDirectories.map((directory) => `${directory}/${one}.d`));
  const dropIns = [...(await firstOfName(beside, files))].filter(([file]) => file.endsWith('.conf'));
  const ordered = dropIns.toSorted(([one], [other]) => (one < other ? -1 : 1));
  const texts = await Promise.all(ordered.map(([, file]) => textOf(file)));
  return [unit, ...texts.flatMap((text) => text ?? [])];
}
