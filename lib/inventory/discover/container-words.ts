// Words of a container's command, args and variables as its kubelet expands them (kubernetes/kubernetes:
// third_party/forked/golang/expansion/expand.go). Pure.

/** `$(NAME)` is replaced, `$$` is one `$`, and a variable that is not known stays as it is written. */
export const expanded = (text: string, variables: ReadonlyMap<string, string>): string =>
  text.replaceAll(/\$\$|\$\(([^()]*)\)/g, (found, name?: string) =>
    name === undefined ? '$' : (variables.get(name) ?? found),
  );
