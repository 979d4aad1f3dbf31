// The commands for a machine that is adopted: again, with what it was adopted with; its repair; its way back. Pure.
import { dirname } from 'node:path';
import { defaultDirectory } from '../install/layout.ts';
import { type Given, nextCommand } from '../next-command.ts';
import type { PodAddition } from './static-pods.ts';

/** As it must be typed. */
export const adoptAgain = ({ image, layout }: Pick<PodAddition, 'image' | 'layout'>): string =>
  nextCommand('init adopt', { '--image': image, ...outOf(dirname(layout.directory)) });

/** `directory`: of our files. */
export const repairAgain = (directory: string): string =>
  nextCommand('init adopt', { '--repair': true, ...outOf(directory) });

export const unadoptAgain = (directory: string): string => nextCommand('uninstall adopt', outOf(directory));

const outOf = (directory: string): Given => ({ '--out': directory === defaultDirectory ? undefined : directory });
