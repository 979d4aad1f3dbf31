// Bill of materials of a release, CycloneDX 1.6: the packages of which parts are in the program, Node, and the libraries of
// the image. Pure.
import { relative } from 'node:path';
import type { Stamp } from '../build-stamp.ts';
import { packagesOf } from '../notices.ts';
import type { LockedPackage } from './architectures.ts';
import type { Locked } from './libraries.ts';

interface Materials {
  readonly root: string;
  readonly stamp: Stamp;
  readonly locked: Readonly<Record<string, LockedPackage>>;
  /** Absolute paths of the files that are bundled. */
  readonly bundled: readonly string[];
  /** Names of further packages that a release brings. */
  readonly brought: readonly string[];
  /** Packages of Debian that the image has, by architecture. */
  readonly libraries: Readonly<Record<string, Locked>>;
}

/** Text of the file. It has no serial number, which would differ in each build. */
export function billOfMaterials({ root, stamp, locked, bundled, brought, libraries }: Materials): string {
  const paths = [
    ...packagesOf(bundled).map((directory) => relative(root, directory)),
    ...brought.map((name) => `node_modules/${name}`),
  ];
  const ofDebian = Object.entries(libraries).flatMap(([architecture, packages]) =>
    Object.entries(packages).map(([name, [version, sum]]) => libraryOf(name, { architecture, version, sum })),
  );
  const components = [...paths.map((path) => componentOf(path, locked[path])), ...ofDebian].toSorted(byReference);
  const name = 'kube-cert-recovery';
  const self = { type: 'application', 'bom-ref': `${name}@${stamp.version}`, name, version: stamp.version };
  const properties = [{ name: `${name}:commit`, value: stamp.commit }];
  const bill = {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { timestamp: stamp.builtAt, component: { ...self, licenses: licensesOf('Apache-2.0'), properties } },
    components,
    dependencies: [{ ref: self['bom-ref'], dependsOn: components.map((component) => component['bom-ref']) }],
  };
  return `${JSON.stringify(bill, undefined, 2)}\n`;
}

function componentOf(path: string, locked: LockedPackage | undefined) {
  if (locked === undefined) throw new Error(`Cannot make packages: package-lock.json has no "${path}"`);
  const full = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
  const [group, name] = full.startsWith('@') ? full.split('/') : [undefined, full];
  const purl = `pkg:npm/${full.replace('@', '%40')}@${locked.version}`;
  const [, sum = ''] = /^sha512-(\S+)$/.exec(locked.integrity) ?? [];
  return {
    type: 'library',
    'bom-ref': purl,
    ...(group !== undefined && { group }),
    name,
    version: locked.version,
    scope: 'required',
    hashes: [{ alg: 'SHA-512', content: Buffer.from(sum, 'base64').toString('hex') }],
    ...(locked.license !== undefined && { licenses: licensesOf(locked.license) }),
    purl,
  };
}

interface Library {
  readonly architecture: string;
  readonly version: string;
  readonly sum: string;
}

function libraryOf(name: string, { architecture, version, sum }: Library): Component {
  const purl = `pkg:deb/debian/${name.replaceAll('+', '%2B')}@${version.replaceAll('+', '%2B')}?arch=${architecture}`;
  return {
    type: 'library',
    'bom-ref': purl,
    name,
    version,
    scope: 'required',
    hashes: [{ alg: 'SHA-256', content: sum }],
    purl,
  };
}

const licensesOf = (license: string) =>
  /[ (]/.test(license) ? [{ expression: license }] : [{ license: { id: license } }];

type Component = ReturnType<typeof componentOf>;
const byReference = (one: Component, other: Component): number => (one['bom-ref'] < other['bom-ref'] ? -1 : 1);
