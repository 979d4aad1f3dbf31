// Holds the containers of manifests/openshift against those of OpenShift's operators, whose places they take.
import { describe, expect, it } from 'vitest';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { run } from '../../cmd/cli.ts';
import { operatorsContainers } from '../../scripts/openshift-containers.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { components, publishedContainers } from '../support/node/openshift-pods.ts';
import { page } from './markdown.ts';

const beside = 'manifests/openshift/beside-operators.yaml';
const pod = parseYaml(page(beside)) as {
  readonly spec: { readonly containers: readonly { readonly name: string; readonly args: readonly string[] }[] };
};

describe('beside the operators', () => {
  it.each(pod.spec.containers.map(({ name, args }) => [name, args] as const))(
    '%s takes its arguments',
    async (_, args) => {
      const isConfigured = args.some((one) => one.startsWith('--config='));
      const said = await saidBy(isConfigured ? args : [...args, '--config=/nowhere/config.yaml']);
      expect(said).toMatch(
        /Cannot read configuration "\/(nowhere|etc\/kubernetes\/kube-cert-recovery\/approver)\/config\.yaml"/,
      );
      expect(said).not.toMatch(/unknown option|must /);
    },
  );

  it('the MachineConfig brings this very pod', () => {
    const config = parseYaml(page('manifests/openshift/machine-config.yaml')) as MachineConfig;
    const [{ path, contents }] = config.spec.config.storage.files;
    expect(path).toBe('/etc/kubernetes/manifests/kube-cert-recovery.yaml');
    const [, content = ''] = /^data:;base64,(.*)$/.exec(contents.source) ?? [];
    expect(parseYaml(Buffer.from(content, 'base64').toString())).toEqual(pod);
  });
});

it('init openshift, as the page has it, puts the image into every container of the pod that the MachineConfig brings', async () => {
  const [, command = '', image = ''] =
    /^kube-cert-recovery (init openshift --image=(\S+)) > /m.exec(page('docs/openshift.md')) ?? [];
  const said = await saidBy(command.split(' '));
  expect(said).not.toContain('example.com/kube-cert-recovery:0.1.0\n');
  const { spec } = parseYaml(said) as MachineConfig;
  const [, content = ''] = /^data:;base64,(.*)$/.exec(spec.config.storage.files[0].contents.source) ?? [];
  const brought = parseYaml(Buffer.from(content, 'base64').toString()) as { spec: { containers: { image: string }[] } };
  expect(brought.spec.containers.map((one) => one.image)).toEqual(pod.spec.containers.map(() => image));
  expect({ ...brought, spec: undefined }).toEqual({ ...pod, spec: undefined });
  expect(await saidBy(['init', 'openshift'])).toContain('--image: is required');
});

interface MachineConfig {
  readonly spec: { readonly config: { readonly storage: { readonly files: readonly [IgnitionFile] } } };
}

interface IgnitionFile {
  readonly path: string;
  readonly contents: { readonly source: string };
}

async function saidBy(argv: readonly string[]): Promise<string> {
  const said: string[] = [];
  const stream = { write: (text: string) => void said.push(text) };
  const io = { argv, env: {}, cwd: '/', stdout: stream, stderr: stream };
  await run(io as unknown as Parameters<typeof run>[0]);
  return said.join('');
}

describe.each(components)('in place of the containers beside $name', (component) => {
  const published = publishedContainers(component);
  const original = operatorsContainers[component.name];

  it('only image, command and arguments are others', () => {
    const rest = published.map(({ image: _image, args: _args, ...others }) => others);
    expect(rest).toEqual(original);
    expect(original).toHaveLength(2);
  });

  it.each(published.map(({ name, args }) => [name, args] as const))('%s takes its arguments', async (_name, args) => {
    // The namespace that the kubelet puts in; a file that is not there ends it after all else was found right.
    const argv = args.map((one) => one.replace('$(POD_NAMESPACE)', component.namespace));
    const said = await saidBy([...argv, '--config=/nowhere/config.yaml']);
    expect(said).toContain('/nowhere/config.yaml');
    expect(said).not.toMatch(/unknown option|must /);
    expect(installedPresets.names()).toContain(component.preset);
  });
});
