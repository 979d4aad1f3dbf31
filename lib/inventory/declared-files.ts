// Directories and files of this host that differ from site to site, in their YAML form: allowed fields, the flag of a
// component that names them, and their default.
import * as z from 'zod';
import { flagOfComponent } from './reader.ts';
import { filePath, parameterName, someText } from './values.ts';

const namedBy = flagOfComponent.describe('The flag of a component on this machine that names it');

export const directories = z
  .record(
    parameterName,
    z.strictObject({
      description: someText,
      default: filePath
        .exactOptional()
        .describe(
          'Used when nothing is given; without it it is required. May begin with a directory that is declared before it',
        ),
      namedBy: namedBy.exactOptional(),
    }),
  )
  .default({})
  .describe('Directories of this host that differ from site to site; paths begin with {NAME}');

export const files = z
  .record(
    parameterName,
    z.strictObject({
      description: someText,
      namedBy: namedBy.exactOptional(),
      alsoNamedBy: z
        .array(namedBy)
        .min(1)
        .exactOptional()
        .describe(
          'Of a CA whose key is not beside the file that the first flag names: flags that lead to its key, too',
        ),
      keyOf: parameterName
        .exactOptional()
        .describe('The file of a certificate, beside which its key has its usual name: ca.key, ca-key.pem'),
      default: filePath
        .exactOptional()
        .describe('Used where nothing says what its component reads. May begin with a directory'),
      ownDefault: z
        .literal(true)
        .exactOptional()
        .describe('The default counts also where the flags of its component do not name the file'),
      alone: z
        .literal(true)
        .exactOptional()
        .describe('Only where the flag is given once: of several files nothing says which one is meant'),
    }),
  )
  .default({})
  .describe(
    'Files of this host that the flags of components name; a location is {NAME}. An entry of which no flag names the file does not exist',
  );
