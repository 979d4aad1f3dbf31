// Words of a container's command, args and variables as its kubelet expands them (kubernetes/kubernetes:
// third_party/forked/golang/expansion/expand.go). Pure.

/** Of all values that one text gets. Paths have four kilobytes at most; variables in variables could grow without end. */
const longestExpansion = 65_536;

/** Replaces by a value as long as there is room for it; what finds none stays as it is written. */
export function roomForValues(): (value: string | undefined, written: string) => string {
  let left = longestExpansion;
  return (value, written) => {
    if (value === undefined || value.length > left) return written;
    left -= value.length;
    return value;
  };
}

/** `$(NAME)` is replaced, `$$` is one `$`, and a variable that is not known stays as it is written. */
export function expanded(text: string, variables: ReadonlyMap<string, string>): string {
  const put = roomForValues();
  return text.replaceAll(/\$\$|\$\(([^()]*)\)/g, (found, name?: string) =>
    name === undefined ? '$' : put(variables.get(name), found),
  );
}
