// Commands for an adopted machine, as the administrator types them: adopt again with the same options, repair, give
// back. Pure.
import { dirname } from 'node:path';
import { defaultDirectory } from '../install/layout.ts';
import { type Given, nextCommand } from '../next-command.ts';
import type { PodAddition } from './static-pods.ts';

export const adoptAgain = ({ image, layout }: Pick<PodAddition, 'image' | 'layout'>): string =>
  nextCommand('init adopt', { '--image': image, ...outOf(dirname(layout.directory)) });

/** `directory`: holds the files of kube-cert-recovery. */
export const repairAgain = (directory: string): string =>
  nextCommand('init adopt', { '--repair': true, ...outOf(directory) });

export const unadoptAgain = (directory: string): string => nextCommand('uninstall adopt', outOf(directory));

const outOf = (directory: string): Given => ({ '--out': directory === defaultDirectory ? undefined : directory });
