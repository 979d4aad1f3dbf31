// The columns of the table of flags (flags.ts). Pure.

/**
 * How a value is parsed; by default as text, and a flag without value is true. `path`: relative to the working
 * directory. `list`: comma-separated. `level`: also klog's numbers. Plural forms may be given several times.
 */
type FlagForm = 'path' | 'list' | 'level' | 'lists' | 'listsByName' | 'pathsByName';

export interface FlagColumns {
  /** Field of the configuration file. A field below the name of a mode is used by that mode only. */
  readonly field?: string;
  readonly as?: FlagForm;
  /** Whether the units of `init host` keep the flag, or it is refused because they would not use it. */
  readonly units?: 'kept' | 'refused';
  /** Whether it describes the cluster: `init` writes it into the configuration file of the modes. */
  readonly isOfCluster?: boolean;
  readonly help: string;
}
