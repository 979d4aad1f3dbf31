// Words of a container's command, args and variables, expanded the way of its kubelet (kubernetes/kubernetes:
// third_party/forked/golang/expansion/expand.go). Pure.

import { bounds } from '../../bounds.ts';

/** Replaces a variable by its value as long as there is room for it in the text; else the written text stays. */
export function roomForValues(): (value: string | undefined, written: string) => string {
  let left: number = bounds.script.most.unfolded;
  return (value, written) => {
    if (value === undefined || value.length > left) return written;
    left -= value.length;
    return value;
  };
}

/** Expands a text: `$(NAME)` is replaced, `$$` is one `$`, and an unknown variable stays unchanged. */
export function expanded(text: string, variables: ReadonlyMap<string, string>): string {
  const put = roomForValues();
  return text.replaceAll(/\$\$|\$\(([^()]*)\)/g, (found, name?: string) =>
    name === undefined ? '$' : put(variables.get(name), found),
  );
}
