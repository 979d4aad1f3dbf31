// Content that a machine without the key of the CA obtains between two passes, while no lock is held: a successor of its
// CA, and the certificate that it requests with the key of the expired one. The next pass decides about both.
import { steadyMs } from '../clock.ts';
import { hintOf, realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { RecoveryError, systemCode } from '../errors.ts';
import { RunState } from '../host/state.ts';
import { defaultDirectory, hostLayout, workerTokenFile } from '../install/layout.ts';
import { tokenAccount } from '../install/worker-host.ts';
import { privateKeyKey } from '../inventory/content.ts';
import type { DiskLocation, Resolved, ResolvedArtefact, ResolvedTarget } from '../inventory/model.ts';
import { isFile, isObtained } from '../inventory/places.ts';
import { clusterInfoText } from '../kube/cluster-info.ts';
import { nextCommand } from '../next-command.ts';
import { heldBy } from '../plan/follow-rules.ts';
import { gather } from '../plan/gather.ts';
import type { Expired } from '../origin/issued.ts';
import type { Asked, PairBytes } from '../plan/gather-offers.ts';
import { connect } from './connections.ts';
import type { RegenRun } from './regen-run.ts';

const usualWaitMs = 40_000;
const usualTokenFile = workerTokenFile(hostLayout(defaultDirectory));

const noteOf = (name: string): string => `asked-${name}`;

/** Where entries are obtained, and when an earlier run has asked there. */
export async function askedBefore({ artefacts }: Resolved, lockDir: string): Promise<readonly [string, Asked][]> {
  const followed = artefacts.filter((one) => one.kind === 'external' && one.followedAs === 'serverCa');
  return Promise.all(
    followed.map(async ({ name }): Promise<[string, Asked]> => {
      const askedAt = (await new RunState(lockDir).getText(noteOf(name)))?.at;
      return [name, { place: clusterInfoText, ...(askedAt && { askedAt }) }];
    }),
  );
}

/** Answers for these artefacts, in the order of the inventory: a valid CA comes first. Rejects when it is aborted. */
export async function obtain(run: RegenRun, names: readonly string[]): Promise<ReadonlyMap<string, Asked>> {
  const answers = new Map<string, Asked>();
  for (const artefact of run.resolved.artefacts) {
    const { name } = artefact;
    if (!names.includes(name) || !isObtained(artefact)) continue;
    const ask = artefact.kind === 'target' ? requested(run, artefact) : published(run, artefact);
    answers.set(name, { place: clusterInfoText, answer: await ask });
  }
  return answers;
}

type Answer = NonNullable<Asked['answer']>;

const leftMs = ({ mode, beganMs, runtime: { clock } }: RegenRun): number =>
  Math.max(0, (mode.obtaining?.waitMs ?? usualWaitMs) - 1000 * Math.floor((steadyMs(clock) - beganMs) / 1000));

/** Noted before the request: whatever its outcome, the next minute is silent. */
async function published(run: RegenRun, artefact: ResolvedArtefact): Promise<Answer> {
  const { name } = artefact;
  const { mode, runtime, resolved, report } = run;
  const { clock, log, signal } = runtime;
  await new RunState(mode.lockDir).keep(noteOf(name), '', clock.now());
  const { facts } = await gather({ resolved, store: run.disk, now: clock.now(), signal });
  const isUrgent = report.artefacts.some((one) => one.artefact === name && one.action !== 'keep');
  const { publishedCa } = await import('../origin/published-ca.ts');
  return publishedCa({
    kubeconfig: kubeconfigOf(resolved),
    anchors: heldBy(artefact, facts),
    held: resolved.artefacts.flatMap((one) => heldBy(one, facts)),
    waitMs: isUrgent ? leftMs(run) : undefined,
    clock,
    log,
    signal,
  });
}

async function requested(run: RegenRun, { location, name }: ResolvedTarget): Promise<Answer> {
  const { runtime, resolved, disk } = run;
  const { clock, signal } = runtime;
  const { facts, found, backups } = await gather({ resolved, store: disk, now: clock.now(), signal });
  const fact = facts.get(name);
  const isLost = fact?.state === 'present' && fact.isLost === true;
  const entries = (isLost ? backups : found).get(name)?.entries ?? {};
  const { pairIn } = await import('../origin/issued.ts');
  const pair = pairIn(entries);
  const key = entries[privateKeyKey];
  if (pair === undefined || key === undefined || !isFile(location) || clock.now() < pair.leaf.facts.notAfter)
    return { problem: 'another run has changed it' };
  try {
    const certificate = await issuedFor(run, pair, kubeconfigOf(resolved));
    return { certificate, key } satisfies PairBytes;
  } catch (err) {
    if (!(err instanceof RecoveryError)) throw err;
    return { problem: err.message };
  }
}

async function issuedFor(run: RegenRun, pair: Expired, kubeconfig: string): Promise<Buffer> {
  const { mode, runtime } = run;
  const { config, clock, log, signal } = runtime;
  const tokenFile = mode.obtaining?.tokenFile ?? usualTokenFile;
  const connecting = { config, clock, log, signal };
  const account = await accountOf(tokenFile);
  const { askForCertificate } = await import('../origin/ask-certificate.ts');
  const { readKubeconfig } = await import('../kubeconfig/credentials.ts');
  const connection = await connect(kubeconfig, { ...connecting, tokenFile });
  try {
    return await askForCertificate(pair, {
      connection,
      account,
      async connectAs(clientCertificate) {
        const { tlsServerNameOverride } = config;
        const server = await readKubeconfig(kubeconfig, { tokenFile, tlsServerNameOverride });
        return connect(kubeconfig, { ...connecting, credentials: { ...server, token: undefined, clientCertificate } });
      },
      waitMs: leftMs(run),
      clock,
      log,
      signal,
    });
  } finally {
    await connection.close();
  }
}

/** The kubeconfig of the kubelet, which names the API server. */
function kubeconfigOf({ artefacts }: Resolved): string {
  const places = artefacts.flatMap(({ location }): readonly DiskLocation[] => (isFile(location) ? [location] : []));
  return places.flatMap((place) => (place.kind === 'kubeconfig' ? [place.file] : []))[0] ?? '';
}

/**
 * Account of the token, where readable. Throws ConfigInvalid, which explains where a token comes from: the connection
 * would only name the field of kubelet.conf.
 */
async function accountOf(path: string): Promise<string | undefined> {
  const text = await readRegularFile(realDisk, path).catch(systemCode);
  const problem = Buffer.isBuffer(text) ? (text.toString().trim() === '' ? 'is empty' : undefined) : hintOf(text ?? '');
  if (Buffer.isBuffer(text) && problem === undefined) return tokenAccount(text.toString().trim());
  const message = `Cannot ask for a certificate: the token of this worker, "${path}": ${problem}; run here what "${nextCommand('init workers')}" prints on a control-plane node`;
  throw new RecoveryError('ConfigInvalid', message);
}
