// Content that a machine without the key of the cluster's CA obtains from its cluster, in its YAML form.
import * as z from 'zod';

/** Possession of its own key is all that such a machine can prove. */
export const obtainedBy = z
  .enum(['request'])
  .exactOptional()
  .describe('request: with a CertificateSigningRequest by its own key, once it has expired; it has no issuer here');

export const followedAs = z
  .enum(['serverCa', 'clientCa'])
  .exactOptional()
  .describe(
    'Of CAs in files: a CA that the cluster has renewed with the key of the CA here takes its place. serverCa: by ' +
      'these CAs the API server is verified that publishes it; clientCa: by these, clients of this machine',
  );
