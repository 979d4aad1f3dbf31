// @peculiar/x509's declarations use names of lib.dom. Without these they would silently become `any` under
// skipLibCheck.
import type { webcrypto } from 'node:crypto';
declare global {
  type BufferSource = ArrayBufferView | ArrayBuffer;
  type AlgorithmIdentifier = webcrypto.AlgorithmIdentifier;
  type KeyUsage = webcrypto.KeyUsage;
  interface Algorithm extends webcrypto.Algorithm {}
  interface Crypto extends webcrypto.Crypto {}
  interface CryptoKey extends webcrypto.CryptoKey {}
  interface CryptoKeyPair extends webcrypto.CryptoKeyPair {}
  interface EcKeyGenParams extends webcrypto.EcKeyGenParams {}
  interface EcKeyImportParams extends webcrypto.EcKeyImportParams {}
  interface EcdsaParams extends webcrypto.EcdsaParams {}
  interface RsaHashedKeyGenParams extends webcrypto.RsaHashedKeyGenParams {}
  interface RsaHashedImportParams extends webcrypto.RsaHashedImportParams {}
}
