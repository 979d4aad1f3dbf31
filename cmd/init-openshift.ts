// `init openshift`: prints the MachineConfig that installs our static pod on the control-plane nodes, with the image in
// it. Ignition holds the pod in base64, where the administrator could not edit the image by hand.
import { resolve } from 'node:path';
import type { FlagsOf } from '../lib/config/flags.ts';
import { defaultDirectory } from '../lib/install/layout.ts';
import { besideOperatorsMachineConfig, besideOperatorsPod } from '../lib/install/openshift-beside.ts';
import { problemsError } from '../lib/problems.ts';
import { toYaml } from '../lib/yaml.ts';
import { exitCodes } from './exit-codes.ts';
import type { InstallLine } from './read-config.ts';
import type { Io } from './io.ts';

type OpenshiftLine = InstallLine & FlagsOf<'init openshift'>;

export function initOpenshiftCommand({ image = '', out }: OpenshiftLine, { cwd, stdout }: Io): Promise<number> {
  if (image === '') {
    const message = 'is required: the image of this program, as every control-plane node can pull it';
    throw problemsError('ConfigInvalid', 'Cannot print the MachineConfig', [
      { path: '--image', kind: 'required', message },
    ]);
  }
  const directory = out === undefined ? defaultDirectory : resolve(cwd, out);
  stdout.write(toYaml(besideOperatorsMachineConfig(toYaml(besideOperatorsPod(image, directory)))));
  return Promise.resolve(exitCodes.done);
}
