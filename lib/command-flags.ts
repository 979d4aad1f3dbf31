// The flags of a component's command line, in every spelling that Kubernetes' own programs take. Pure. One home: a
// spelling that one reader knows and another does not would hide a setting of the administrator.

interface CommandFlag {
  /** Name without leading dashes, and with dashes in it: `client-ca-file`. */
  readonly name: string;
  /** Value in `--flag=value` or `--flag value`; undefined where neither is given. */
  readonly value: string | undefined;
}

/**
 * Flags in their order, repeats kept: of most flags the last one counts. With one dash or two (Go's package flag), and
 * with underscores for dashes (k8s.io/component-base cli/flag, WordSepNormalizeFunc).
 */
export function flagsIn(words: readonly string[]): readonly CommandFlag[] {
  return words.flatMap((word, at) => {
    const [, name, value] = /^--?([^-=][^=]*)(?:=(.*))?$/s.exec(word) ?? [];
    if (name === undefined) return [];
    const next = words[at + 1];
    return [{ name: name.replaceAll('_', '-'), value: value ?? (next?.startsWith('-') === true ? undefined : next) }];
  });
}
