// Where a URL leads, as a socket wants it.

export interface ServerAddress {
  readonly host: string;
  readonly port: number;
}

/** Of https. */
export const serverAddress = (url: URL): ServerAddress => ({ host: bareHost(url), port: Number(url.port || '443') });

/** An IPv6 address stands in brackets in a URL (RFC 3986, section 3.2.2), and nowhere else. */
export const bareHost = ({ hostname }: Pick<URL, 'hostname'>): string => hostname.replace(/^\[(.+)\]$/, '$1');
