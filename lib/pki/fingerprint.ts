// Fingerprints of certificates as people write them. Pure.

/** Fingerprint in one piece, or as openssl prints it (`openssl x509 -noout -fingerprint -sha256`); lower-case hex. */
export function parseFingerprint(text: string): string | undefined {
  const [, digits = ''] = /^(?:SHA256:|sha256 Fingerprint=)([0-9a-f:]+)$/i.exec(text.trim()) ?? [];
  const hex = digits.replaceAll(':', '').toLowerCase();
  return hex.length === 64 ? hex : undefined;
}
