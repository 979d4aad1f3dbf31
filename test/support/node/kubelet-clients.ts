// CAs with keys of their own, made on a machine, and what kubelets answer to their clients.
import type { Node } from './node.ts';

const directory = '/var/lib/machine';

/** Makes a CA below the directory of the machine's script: NAME.crt and NAME.key. The answer is the certificate. */
export async function makeAuthority(node: Node, name: string): Promise<string> {
  await node.sh(
    `mkdir -p ${directory} && cd ${directory}
    openssl req -x509 -newkey rsa:2048 -nodes -keyout ${name}.key -out ${name}.crt -days 100 -subj /CN=${name} \\
      -addext keyUsage=critical,keyCertSign 2>/dev/null`,
  );
  return node.read(`${directory}/${name}.crt`);
}

/** Key and certificate of a client, signed by that CA. */
export const clientOf = (node: Node, authority: string): Promise<string> =>
  node.sh(
    `cd ${directory}
    openssl req -newkey rsa:2048 -nodes -keyout client.key -out client.csr -subj /CN=a-client 2>/dev/null
    printf 'extendedKeyUsage=clientAuth' > ext
    openssl x509 -req -in client.csr -CA ${authority}.crt -CAkey ${authority}.key -CAcreateserial -days 10 \\
      -extfile ext -out client.crt 2>/dev/null
    cat client.key client.crt`,
  );

/** First line of the answer of its kubelet: 401 to a client that it does not know, 403 to one without rights. */
export const kubeletAnswer = (node: Node, client: string): Promise<string> =>
  node.sh(
    `printf '%s' '${client}' > /run/client.pem
    printf 'GET /pods HTTP/1.0\\r\\n\\r\\n' | openssl s_client -quiet -cert /run/client.pem -key /run/client.pem \\
      -connect 127.0.0.1:10250 2>/dev/null | head -1`,
  );

/** The ConfigMap of `init node-ca`. */
export const bundlesPath = '/api/v1/namespaces/kube-cert-recovery/configmaps/node-ca';
