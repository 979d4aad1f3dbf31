// Damaged certificates, pairs, bundles and kubeconfigs, read here and by Go: where one accepts what the other refuses, and
// it is not known to be intended.
import { readKubeconfigView } from '../../../lib/kubeconfig/document.ts';
import { type Certificate, parseCertificates } from '../../../lib/pki/certificate.ts';
import type { KeyAlgorithm } from '../../../lib/pki/key.ts';
import { generateKey } from '../../../lib/pki/key.ts';
import { pairMatches } from '../../../lib/pki/key.ts';
import { encodePem } from '../../../lib/pki/pem.ts';
import { signLeaf, signSigner } from '../../../lib/pki/sign.ts';
import { errorText, isCode, RecoveryError } from '../../../lib/errors.ts';
import { toYaml } from '../../../lib/yaml.ts';
import { damageInsidePem, damages, damageValue, Dice } from './damage.ts';
import { laterRefused } from '../certificates/later-refused.ts';
import { askGo, findGoReaders, type GoAnswer, type GoQuestion } from './go-readers.ts';

/** What we refuse and Go accepts, on purpose. */
const stricter: readonly { readonly why: string; readonly when: (question: GoQuestion, error: string) => boolean }[] = [
  {
    why: 'a torn block among whole ones: Go leaves it out without a word, and nobody would mend it',
    when: ({ kind }, error) => kind !== 'certificate' && /wanted whole PEM blocks/.test(error),
  },
  {
    why: 'an extension or a public key that Go does not look into, and that nobody can use',
    when: ({ kind }, error) => kind !== 'kubeconfig' && /block at line \d+ is not a certificate/.test(error),
  },
  {
    why: 'a block of another kind where only certificates belong, or a second key',
    when: (_, error) => /wanted only "CERTIFICATE"|, wanted one$|wanted an unencrypted key/.test(error),
  },
  {
    why: 'a list in place of base64, which encoding/json takes for bytes',
    when: ({ kind, content }, error) =>
      kind === 'kubeconfig' &&
      /not base64|are damaged/.test(error) &&
      /-data:(\n +-| \[)/.test(Buffer.from(content).toString()),
  },
  {
    why: 'no current-context, and a context that has lost its name, which client-go then takes',
    when: ({ kind }, error) => kind === 'kubeconfig' && /it has no current-context/.test(error),
  },
  {
    why: 'YAML that is ambiguous: a key that is there twice, an odd indentation',
    when: ({ kind }, error) => kind === 'kubeconfig' && error.startsWith('Cannot parse YAML'),
  },
];

/**
 * What this Go refuses and we accept, on purpose: components that are built with an older Go load it. Each of these is
 * told in the facts of the certificate; nothing else is accepted here that Go refuses.
 */
const older = laterRefused.map(({ reason }) => reason);

interface Case {
  readonly question: GoQuestion;
  /** DER of what is read, where there is any. Throws MaterialInvalid. */
  readonly read: () => readonly Certificate[];
}

interface Material {
  readonly certificate: string;
  readonly keys: readonly string[];
}

const kinds: readonly KeyAlgorithm[] = [
  { name: 'RSA', bits: 2048 },
  { name: 'ECDSA', curve: 'P-256' },
  { name: 'ECDSA', curve: 'P-384' },
  { name: 'ECDSA', curve: 'P-521' },
  { name: 'Ed25519' },
];

export interface DifferenceOptions {
  readonly seed: number;
  readonly count: number;
}

/** The differences, each with its seed and its bytes in base64; five at most. */
export async function differencesFromGo({ seed, count }: DifferenceOptions): Promise<readonly string[]> {
  const [program, material] = await Promise.all([findGoReaders(), materialOnce()]);
  const cases = Array.from({ length: count }, (_, at) => caseOf(new Dice(seed + at), material));
  const answers = await askGo(
    program,
    cases.map(({ question }) => question),
  );
  const differences = cases.flatMap((one, at) => {
    const difference = differenceOf(one, answers[at] ?? { accepted: false });
    if (difference === undefined) return [];
    // Keys are new in each run, so the bytes are told as well.
    const { content, key } = one.question;
    const bytes = [content, key].flatMap((part) => (part === undefined ? [] : [Buffer.from(part).toString('base64')]));
    return [`DAMAGE_SEED=${seed + at} DAMAGE_CASES=1: ${difference}\n${bytes.join('\n')}`];
  });
  return differences.slice(0, 5);
}

function differenceOf({ question, read }: Case, go: GoAnswer): string | undefined {
  const what = `${question.kind}: Go ${go.accepted ? 'accepts' : `refuses (${go.reason})`}`;
  let certificates: readonly Certificate[];
  try {
    certificates = read();
  } catch (err) {
    if (!isCode(err, 'MaterialInvalid')) throw err;
    const error = errorText(err);
    const isMeant = !go.accepted || stricter.some(({ when }) => when(question, error));
    return isMeant ? undefined : `${what}, we refuse: ${error}`;
  }
  const isTold = certificates.some(({ facts }) => facts.newerGo !== undefined);
  if (!go.accepted && !(isTold && older.some((reason) => reason.test(go.reason ?? '')))) return `${what}, we accept`;
  if (!go.accepted) return undefined;
  if (isTold && question.kind !== 'pair') return `${what}, and we say that it does not`; // of a pair Go reads the leaf only
  const ours = certificates.map(({ x509 }) => x509.raw.toString('base64'));
  if (go.certificates !== undefined && ours.join() !== go.certificates.join()) return `${what}, and reads others`;
  const [first] = certificates;
  if (question.kind !== 'certificate' || first === undefined) return undefined;
  const { notBefore, notAfter } = first.facts;
  const seconds = [notBefore, notAfter].map((date) => date.getTime() / 1000);
  return seconds.join() === [go.notBefore ?? 0, go.notAfter ?? 0].join() ? undefined : `${what}, with other dates`;
}

let made: Promise<readonly Material[]> | undefined;
export const materialOnce = (): Promise<readonly Material[]> => (made ??= makeMaterial());

async function makeMaterial(): Promise<readonly Material[]> {
  const now = new Date('2026-06-01T00:00:00Z');
  const dates = { notBefore: now, notAfter: new Date('2036-06-01T00:00:00Z'), now };
  const pairs = kinds.map(async (algorithm): Promise<Material[]> => {
    const [ca, own] = await Promise.all([generateKey(algorithm), generateKey(algorithm)]);
    const certificate = await signSigner({ commonName: 'a CA', key: ca.key, ...dates });
    const leaf = await signLeaf({
      issuer: { certificate, key: ca.key },
      key: own.key,
      commonName: 'system:node:a',
      organizations: ['system:nodes'],
      hostnames: ['a.example.com', '192.0.2.1', '2001:db8::1'],
      usage: 'serving',
      ...dates,
    });
    const texts = ({ key, pem }: typeof own): string[] => [pem, String(key.export({ type: 'pkcs8', format: 'pem' }))];
    return [
      { certificate: certificate.pem, keys: texts(ca) },
      { certificate: leaf.pem, keys: texts(own) },
    ];
  });
  return (await Promise.all(pairs)).flat();
}

export function caseOf(dice: Dice, material: readonly Material[]): Case {
  const one = dice.pick(material);
  const damage = (bytes: Buffer): Buffer => (dice.roll(2) === 0 ? damageInsidePem : dice.pick(damages))(bytes, dice);
  switch (dice.roll(5)) {
    case 0:
      return certificateCase(one, dice);
    case 1: {
      const content = Buffer.from(one.certificate);
      const key = damage(Buffer.from(dice.pick(one.keys)));
      return { question: { kind: 'pair', content, key }, read: () => readPair(content, key) };
    }
    case 2: {
      const key = Buffer.from(dice.pick(one.keys));
      const content = damage(Buffer.from(one.certificate));
      return { question: { kind: 'pair', content, key }, read: () => readPair(content, key) };
    }
    case 3: {
      const bundle = Buffer.from(
        [one, dice.pick(material), dice.pick(material)].map((each) => each.certificate).join(''),
      );
      const content = damage(bundle);
      return { question: { kind: 'bundle', content }, read: () => parseCertificates(content, 'bundle') };
    }
    default: {
      const content = damagedKubeconfig(one, dice);
      return { question: { kind: 'kubeconfig', content }, read: () => readKubeconfig(content) };
    }
  }
}

/** The bytes of a block that is whole. */
function certificateCase({ certificate }: Material, dice: Dice): Case {
  const text = damageInsidePem(Buffer.from(certificate), dice).toString('latin1');
  const content = Buffer.from(/-----\n([^-]*)-----END/.exec(text)?.[1] ?? '', 'base64');
  const pem = Buffer.from(encodePem({ label: 'CERTIFICATE', der: content }));
  return {
    question: { kind: 'certificate', content },
    read: () => (content.length === 0 ? parseCertificates(Buffer.of(), 'it') : parseCertificates(pem, 'it')),
  };
}

function readPair(certificate: Buffer, key: Buffer): readonly Certificate[] {
  const certificates = parseCertificates(certificate, 'pair');
  const [leaf] = certificates;
  if (leaf === undefined || !pairMatches(leaf, key, 'pair')) throw new RecoveryError('MaterialInvalid', 'no pair');
  return certificates;
}

function damagedKubeconfig({ certificate, keys }: Material, dice: Dice): Buffer {
  const base64 = (text = ''): string => Buffer.from(text).toString('base64');
  const document = {
    apiVersion: 'v1',
    clusters: [
      {
        cluster: { server: 'https://192.0.2.1:6443', 'certificate-authority-data': base64(certificate) },
        name: 'kubernetes',
      },
      { cluster: { server: 'https://other:6443' }, name: 'other' },
    ],
    contexts: [
      { context: { cluster: 'kubernetes', user: 'admin' }, name: 'admin@kubernetes' },
      { context: { cluster: 'other', user: 'somebody' }, name: 'other' },
    ],
    'current-context': 'admin@kubernetes',
    kind: 'Config',
    preferences: {},
    users: [
      { name: 'admin', user: { 'client-certificate-data': base64(certificate), 'client-key-data': base64(keys[0]) } },
      { name: 'somebody', user: { token: 'secret' } },
    ],
  };
  if (dice.roll(3) > 0) return Buffer.from(toYaml(damageValue(document, dice)));
  return dice.pick(damages)(Buffer.from(toYaml(document)), dice);
}

/** What client-go loads and finds usable: certificates themselves are other cases. */
function readKubeconfig(content: Buffer): readonly Certificate[] {
  const view = readKubeconfigView('/a.conf', content, {});
  if ('problem' in view) throw new RecoveryError('MaterialInvalid', view.problem);
  if ('foreign' in view && view.isOtherDocument === true) throw new RecoveryError('MaterialInvalid', view.foreign);
  if (!('user' in view)) return [];
  const { certificate, key, authority } = view;
  const isTorn = [certificate, key, authority].some((one) => one.kind === 'data' && one.bytes === undefined);
  const isHalf = certificate.kind !== 'none' && key.kind === 'none'; // a key alone is no identity, and no error
  if (isTorn || isHalf) throw new RecoveryError('MaterialInvalid', 'its credentials are damaged');
  return [];
}
