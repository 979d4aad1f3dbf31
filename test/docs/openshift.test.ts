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
    const config = parseYaml(page('manifests/openshift/machine-config.yaml')) as {
      readonly spec: { readonly config: { readonly storage: { readonly files: readonly [IgnitionFile] } } };
    };
    const [{ path, contents }] = config.spec.config.storage.files;
    expect(path).toBe('/etc/kubernetes/manifests/kube-cert-recovery.yaml');
    const [, content = ''] = /^data:;base64,(.*)$/.exec(contents.source) ?? [];
    expect(parseYaml(Buffer.from(content, 'base64').toString())).toEqual(pod);
  });
});

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
