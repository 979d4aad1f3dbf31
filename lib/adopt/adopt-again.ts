// The command that adopts this machine again, with what it was adopted with. Pure.
import { dirname } from 'node:path';
import { defaultDirectory } from '../install/layout.ts';
import { nextCommand } from '../next-command.ts';
import type { PodAddition } from './static-pods.ts';

/** As it must be typed. */
export function adoptAgain({ image, layout }: Pick<PodAddition, 'image' | 'layout'>): string {
  const directory = dirname(layout.directory);
  return nextCommand('init adopt', {
    '--image': image,
    '--out': directory === defaultDirectory ? undefined : directory,
  });
}
