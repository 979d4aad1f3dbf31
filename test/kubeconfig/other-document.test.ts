import { describe, expect, it } from 'vitest';
import { otherDocument } from '../../lib/kubeconfig/other-document.ts';

describe('otherDocument()', () => {
  it.each([
    ['an EnvironmentFile', '# args\nexport A="x"\nKUBELET_ARGS=--v=2\n', 'a file of environment variables'],
    [
      'a KubeletConfiguration',
      'kind: KubeletConfiguration\nclusterDomain: x\n',
      'a document of kind KubeletConfiguration',
    ],
    ['another mapping', 'leaderElection: {leaderElect: true}\n', 'another YAML document'],
  ])('names %s', (_title, text, name) => {
    expect(otherDocument(text)).toBe(name);
  });

  it.each([
    ['an empty file', ''],
    ['zero bytes after a power loss', '\0\0\0\0'],
    ['the first line of a torn kubeconfig', 'apiVersion: v1\n'],
    ['a torn kubeconfig', 'apiVersion: v1\nclusters:\n- cluster:\n    certificate-auth'],
    ['a kubeconfig with a damaged kind', 'apiVersion: v1\nkind: Conzig\nclusters: []\n'],
    ['bytes without a form', '%%% \u0001'],
  ])('takes %s for a kubeconfig', (_title, text) => {
    expect(otherDocument(text)).toBeUndefined();
  });
});
