// What this program keeps for itself, its configuration, and requests for certificates: damaged, each is refused with its
// name, or counts for nothing. None of them is an exception of another kind.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseRecord, recordText } from '../../../lib/adopt/record.ts';
import { contentOf } from '../../../lib/approver/node-facts.ts';
import { requestSummary } from '../../../lib/approver/batch.ts';
import { Records } from '../../../lib/approver/records.ts';
import type { SigningRequest } from '../../../lib/approver/request.ts';
import { askedNode, judgeClientRequest } from '../../../lib/approver/client-request.ts';
import { bootstrapRequester, kubeletClientSigner } from '../../../lib/bootstrap-identity.ts';
import { systemClock } from '../../../lib/clock.ts';
import { parseConfig, parseToolConfig } from '../../../lib/config/load.ts';
import { isCode } from '../../../lib/errors.ts';
import { installedPresets } from '../../../lib/inventory/preset.ts';
import { Markers } from '../../../lib/restart/markers.ts';
import { bootId } from '../../../lib/host/proc.ts';
import { RunState } from '../../../lib/host/state.ts';
import { recordIn } from '../cluster/adopted-files.ts';
import { damageInsidePem, damages, damageValue, type Dice } from './damage.ts';
import { damaged, type Outcome } from './damaged-readers.ts';
import { kubeletRequest } from '../certificates/requests.ts';

const configuration = `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
preset: kubernetes
modes: [regen, syncer]
parameters:
  apiServerHostnames: [api.example.com]
regen:
  kubeconfig: /etc/regen.conf
syncer:
  kubeconfig: /etc/syncer.conf
  destinationDir: /certs
`;

const inputOf = (text: string): Parameters<typeof parseConfig>[0] => ({
  flags: {},
  file: { path: '/c.yaml', text },
  env: {},
  cwd: '/',
  presets: installedPresets,
});

const requester = bootstrapRequester('ns');

type Reader = (dice: Dice) => Outcome | Promise<Outcome>;

export class RecordCases implements AsyncDisposable {
  readonly #directory: string;
  readonly #boot: string;
  readonly #csr: SigningRequest;

  private constructor(...made: readonly [string, string, SigningRequest]) {
    [this.#directory, this.#boot, this.#csr] = made;
  }

  static async create(): Promise<RecordCases> {
    const request = Buffer.from(await kubeletRequest('panda')).toString('base64');
    const usages = ['digital signature', 'client auth'];
    const spec = {
      request,
      signerName: kubeletClientSigner,
      usages,
      username: requester.username,
      groups: requester.groups,
    };
    const csr = { metadata: { name: 'csr-1', uid: '1', creationTimestamp: '2026-06-01T00:00:00Z' }, spec };
    if (judgeClientRequest(csr, () => contentOf(csr), requester).action !== 'judge')
      throw new Error('the request is not suitable');
    parseConfig(inputOf(configuration));
    return new RecordCases(await mkdtemp(join(tmpdir(), 'records-')), bootId(), csr);
  }

  async run(dice: Dice): Promise<Outcome> {
    const [name, read] = dice.pick(this.#readers);
    try {
      const problem = await read(dice);
      return problem && `${name}: ${problem}`;
    } catch (err) {
      return `${name}: thrown: ${err instanceof Error ? err.stack : String(err)}`;
    }
  }

  get #readers(): readonly (readonly [string, Reader])[] {
    return [
      ['record of an adoption', (dice) => this.#adoption(dice)],
      ['restart marker', (dice) => this.#marker(dice)],
      ['value of an earlier run', (dice) => this.#kept(dice)],
      ['configuration file', (dice) => this.#configuration(dice)],
      ['CertificateSigningRequest', (dice) => this.#request(dice)],
    ];
  }

  #adoption(dice: Dice): Outcome {
    const whole = recordText(recordIn(this.#directory));
    const next = damaged(Buffer.from(whole), dice).toString('utf8');
    try {
      const read = recordText(parseRecord(next, join(this.#directory, 'own')));
      return read === whole ? undefined : 'it is believed although it says something else';
    } catch (err) {
      if (isCode(err, 'MaterialInvalid') && err.message.includes('adoption')) return undefined;
      throw err;
    }
  }

  async #marker(dice: Dice): Promise<Outcome> {
    const value = { state: 'written', running: [{ pid: 42, started: 7 }] };
    const text = Buffer.from(`${JSON.stringify(dice.roll(2) === 0 ? damageValue(value, dice) : value)}}`);
    const next = dice.roll(2) === 0 ? text : damaged(text, dice);
    // With another boot it would be one of before the boot.
    const ofThisBoot = Buffer.from(`{"boot":"${this.#boot}","value":`);
    await writeFile(join(this.#directory, 'restart-kubelet'), Buffer.concat([ofThisBoot, next]));
    const told: string[] = [];
    const markers = new Markers({
      state: new RunState(this.#directory),
      onFailed: ({ message }) => told.push(message),
    });
    const found = await markers.look('kubelet');
    // Damaged, it says that something may have changed: one restart too many.
    if (found === undefined || told.length > 0) return 'it is lost';
    const isSound = found.running.every(({ pid, started }) => typeof pid === 'number' && typeof started === 'number');
    return isSound ? undefined : 'it names processes that are none';
  }

  async #kept(dice: Dice): Promise<Outcome> {
    const kept = JSON.stringify({ boot: this.#boot, at: '2026-11-25T08:00:00.000Z', value: 7 });
    await writeFile(join(this.#directory, 'lease'), damaged(Buffer.from(kept), dice));
    const asNumber = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined);
    const found = await new RunState(this.#directory).get('lease', asNumber);
    return Number.isNaN(found?.at?.getTime() ?? 0) ? 'it is no time' : undefined;
  }

  #configuration(dice: Dice): Outcome {
    const text = damaged(Buffer.from(configuration), dice).toString('utf8');
    for (const parse of [parseConfig, parseToolConfig]) {
      try {
        parse(inputOf(text));
      } catch (err) {
        if (!isCode(err, 'ConfigInvalid')) throw err;
      }
    }
    return undefined;
  }

  #request(dice: Dice): Outcome {
    const pem = Buffer.from(this.#csr.spec.request, 'base64');
    const next = (dice.roll(2) === 0 ? damageInsidePem : dice.pick(damages))(pem, dice).toString('base64');
    const request: SigningRequest = { ...this.#csr, spec: { ...this.#csr.spec, request: next } };
    const certificate = dice.roll(2) === 0 ? { status: { certificate: next } } : {};
    new Records([requester], systemClock).see({ ...request, ...certificate });
    requestSummary(request, { nodeOf: askedNode });
    const content = contentOf(request);
    const verdict = judgeClientRequest(request, () => content, requester);
    const isChanged = next !== this.#csr.spec.request;
    const isProven = !('problem' in content) && content.provesPossession;
    return verdict.action === 'judge' && isChanged && !isProven
      ? 'it is suitable, and nobody has signed it'
      : undefined;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return rm(this.#directory, { recursive: true, force: true });
  }
}
