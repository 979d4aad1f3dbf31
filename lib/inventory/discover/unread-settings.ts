// Settings of components that name a file in a way that cannot be followed here. The file may expire unseen, so each of
// them is reported for a person to act. Pure.
import { componentNames } from '../../components.ts';
import { fileFlags, type FileRole } from '../file-flags.ts';
import type { UnreadSettings } from '../flag-entries.ts';
import { type ComponentSettings, hostPlaceOf } from './component-settings.ts';
import type { SettingsHere } from './named-files.ts';

export function unreadSettings(settings: SettingsHere): readonly UnreadSettings[] {
  return componentNames.flatMap((component): UnreadSettings[] => {
    const here = settings[component];
    if (here === undefined) return [];
    const messages = Object.entries(fileFlags[component]).flatMap(([flag, role]) =>
      pathsIn(flag, role, here).flatMap((path) => {
        const place = hostPlaceOf(path, here);
        // A component remakes the files in a directory of its own when its pod starts.
        if (place?.unknown === undefined || (role.holds === 'directory' && place.isInPod === true)) return [];
        return [
          `Cannot find the file of ${component} --${flag} on this machine: "${path}" ${place.unknown}; ` +
            `name it by an absolute path of this host in "${here.source}"`,
        ];
      }),
    );
    if (here.isHidden === true)
      messages.push(
        `Cannot find the flags of ${component} in "${here.source}": its command does not run ${component} by name, and ` +
          'what it starts is not read; name the files of its flags there',
      );
    return messages.length === 0
      ? []
      : [{ component, scope: 'settings', file: here.source, message: messages.join('; ') }];
  });
}

/** Returns the effective paths of a flag. */
function pathsIn(flag: string, role: FileRole, { values }: ComponentSettings): readonly string[] {
  const all = values.get(flag) ?? [];
  switch (role.holds) {
    case 'nothing':
      return [];
    case 'tokenKey':
      return all;
    case 'pair':
      // CERT,KEY or CERT,KEY:names, each value of its own.
      if (role.keyFlag === undefined) return all.flatMap((value) => value.split(':')[0]?.split(',') ?? []);
      return all.slice(-1);
    case 'bundle':
    case 'configuration':
    case 'directory':
    case 'key':
    case 'kubeconfig':
    case 'signer':
    case 'webhook':
      return all.slice(-1);
  }
}
