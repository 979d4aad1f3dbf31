// Holds the containers of manifests/openshift against those of OpenShift's operators, whose places they take.
import { describe, expect, it } from 'vitest';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { run } from '../../cmd/cli.ts';
import { operatorsContainers } from '../../scripts/openshift-containers.ts';
import { components, publishedContainers } from '../support/node/openshift-pods.ts';

describe.each(components)('in place of the containers beside $name', (component) => {
  const published = publishedContainers(component);
  const original = operatorsContainers[component.name];

  it('only image, command and arguments are others', () => {
    const rest = published.map(({ image: _image, args: _args, ...others }) => others);
    expect(rest).toEqual(original);
    expect(original).toHaveLength(2);
  });

  it.each(published.map(({ name, args }) => [name, args] as const))('%s takes its arguments', async (_name, args) => {
    const said: string[] = [];
    const stream = { write: (text: string) => void said.push(text) };
    // The namespace that the kubelet puts in; a file that is not there ends it after all else was found right.
    const argv = args.map((one) => one.replace('$(POD_NAMESPACE)', component.namespace));
    const io = { argv: [...argv, '--config=/nowhere/config.yaml'], env: {}, cwd: '/', stdout: stream, stderr: stream };
    await run(io as unknown as Parameters<typeof run>[0]);
    expect(said.join('')).toContain('/nowhere/config.yaml');
    expect(said.join('')).not.toMatch(/unknown option|must /);
    expect(installedPresets.names()).toContain(component.preset);
  });
});
