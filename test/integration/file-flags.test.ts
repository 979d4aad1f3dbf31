// Every flag of the components that names a file, as their own --help lists them, pointed to a file of its own that has expired:
// what is there is repaired or reported, never passed over.
import { execFile } from 'node:child_process';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ComponentName, componentNames } from '../../lib/components.ts';
import { configurationFields, fileFlags } from '../../lib/inventory/file-flags.ts';
import { findBinaries } from '../support/cluster/binaries.ts';
import {
  configure,
  expireFlagged,
  holdsValid,
  type OwnFile,
  ownDirectory,
  ownFiles,
  putOwnFile,
  runOn,
  tellComponents,
  tellOf,
  wordsByComponent,
} from '../support/cluster/flagged-machine.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';

/** Flags whose names or texts sound like a file and that name none. */
const noFiles: Readonly<Record<ComponentName, readonly string[]>> = {
  'kube-apiserver': [],
  'kube-controller-manager': ['authentication-skip-lookup', 'master'],
  'kube-scheduler': ['authentication-skip-lookup', 'master'],
  kubelet: ['register-node'],
  etcd: ['unsafe-no-fsync'],
};

interface HelpFlag {
  readonly name: string;
  readonly type: string;
  readonly text: string;
}

/** Flags of `--help`, of Kubernetes (pflag) and of etcd, whose texts stand on the line or below it. */
function flagsOfHelp(help: string): readonly HelpFlag[] {
  const flags: HelpFlag[] = [];
  for (const line of help.split('\n')) {
    const [, name, rest = ''] = /^\s+(?:-\w, )?--([a-z0-9-]+)(.*)$/.exec(line) ?? [];
    const last = flags.at(-1);
    if (name !== undefined) {
      const [, type = '', text = ''] = /^ ?(\S*)\s*(.*)$/.exec(rest) ?? [];
      flags.push({ name, type, text });
    } else if (last !== undefined && line.trim() !== '') {
      flags[flags.length - 1] = { ...last, text: `${last.text} ${line.trim()}` };
    }
  }
  return flags;
}

const soundsLikeFile = ({ name, type, text }: HelpFlag): boolean => {
  if (/^(int\d*|duration|float\S*|ip|mapStringString|mapStringBool|strings|colonSeparated\S*)$/.test(type))
    return false;
  return (
    /(^|-)(file|cafile|certfile|keyfile|kubeconfig|config|cert|key|cacert|path|dir|manifest|authority)$/.test(name) ||
    /\b(path|pathname) (to|of|for)\b|\bpath to\b|\bfile (containing|with|path)\b|\bkubeconfig\b/i.test(text)
  );
};

let whole: KubeadmMachine;
beforeAll(async () => {
  whole = await KubeadmMachine.create();
});
afterAll(() => whole?.[Symbol.asyncDispose]());

describe('flags that name files', () => {
  it.each(componentNames)('are all known of %s', async (component) => {
    const binary = (await findBinaries([component])).get(component) ?? '';
    const { stdout, stderr } = await promisify(execFile)(binary, ['--help'], { maxBuffer: 1 << 24 });
    const found = flagsOfHelp(`${stdout}${stderr}`)
      .filter(soundsLikeFile)
      .map(({ name }) => name);
    expect(found.length).toBeGreaterThan(4);
    const unknown = found.filter(
      (name) => fileFlags[component][name] === undefined && !noFiles[component].includes(name),
    );
    expect([...new Set(unknown)]).toEqual([]);
  });

  it(
    'have each of their expired certificates, kubeconfigs and signing CAs renewed where its CA is here',
    { timeout: 120_000 },
    async () => {
      await using machine = await whole.copy();
      const files = ownFiles(['pair', 'signer', 'kubeconfig']);
      for (const one of files) await putOwnFile(machine, one);
      await tellOf(machine, files);
      await expireFlagged(machine, (file) => file.includes(ownDirectory));
      expect(await Promise.all(files.map((one) => holdsValid(machine, one)))).not.toContain(true);
      const { stderr } = await runOn(machine, '--mode=regen', '--once');
      const states = await Promise.all(files.map(async (one) => ({ ...one, valid: await holdsValid(machine, one) })));
      expect(
        states.filter(({ valid }) => !valid).map(({ file }) => file),
        stderr,
      ).toEqual([]);
      expect(files.length).toBeGreaterThan(25);
    },
  );

  it(
    'have each CA bundle that has expired reported, and what webhooks are asked with',
    { timeout: 120_000 },
    async () => {
      await using machine = await whole.copy();
      await expireFlagged(machine, () => false);
      const files = ownFiles(['bundle', 'webhook']);
      for (const one of files) await putOwnFile(machine, one);
      await tellOf(machine, files);
      const { stderr, code } = await runOn(machine, '--mode=regen', '--once');
      expect(
        files.filter(({ file }) => !stderr.includes(file)).map(({ file }) => file),
        stderr,
      ).toEqual([]);
      expect(code, stderr).toBe(5);
      const { stdout } = await runOn(machine, 'status');
      expect(
        files.filter(({ component, flag }) => !stdout.includes(`${component} --${flag}`)).map(({ file }) => file),
      ).toEqual([]);
      expect(stdout).not.toContain('as it should be');
    },
  );

  it.each(['kubelet', 'kube-scheduler', 'etcd'] as const)(
    'stand for the fields of the configuration of %s',
    async (component) => {
      await using machine = await whole.copy();
      const named = new Set(
        Object.values(configurationFields[component] ?? {}).flatMap(({ fields }) => Object.values(fields)),
      );
      const files = ownFiles(['pair', 'kubeconfig']).filter(
        (one) => one.component === component && named.has(one.flag),
      );
      expect(files.length).toBeGreaterThan(0);
      for (const one of files) await putOwnFile(machine, one);
      await tellComponents(machine, { [component]: await configure(machine, component, files) });
      await expireFlagged(machine, () => false);
      const { stderr } = await runOn(machine, '--mode=regen', '--once');
      const states = await Promise.all(files.map(async (one) => ({ ...one, valid: await holdsValid(machine, one) })));
      expect(
        states.filter(({ valid }) => !valid).map(({ file }) => file),
        stderr,
      ).toEqual([]);
    },
  );

  it('lead to the directory in which a component keeps what it serves', async () => {
    await using machine = await whole.copy();
    const directories = { kubelet: 'kubelet', 'kube-scheduler': 'kube-scheduler' } as const;
    const files = (Object.keys(directories) as (keyof typeof directories)[]).map((component): OwnFile => {
      const role = { holds: 'pair', usage: 'serving' } as const;
      return { component, flag: 'cert-dir', role, file: `${ownDirectory}/${component}/${directories[component]}.crt` };
    });
    for (const one of files) await putOwnFile(machine, one);
    await tellComponents(
      machine,
      wordsByComponent(files.map((one) => ({ ...one, role: { holds: 'bundle' }, file: dirname(one.file) }))),
    );
    await expireFlagged(machine, () => false);
    const { stderr } = await runOn(machine, '--mode=regen', '--once');
    const states = await Promise.all(files.map((one) => holdsValid(machine, one)));
    expect(states, stderr).toEqual([true, true]);
  });
});
