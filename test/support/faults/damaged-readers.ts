// One damage to one of the things that are read, and what may not follow from it: nothing throws, no other entry is
// decided otherwise, nothing that is healthy is written; and what is damaged is mended, or said to need a person.
import type { ResolvedArtefact } from '../../../lib/inventory/model.ts';
import { parseYaml, toYaml } from '../../../lib/yaml.ts';
import { damageInsidePem, damages, damageValue, Dice } from './damage.ts';
import { DamagedMachine, decided, type MachineLook, now } from './damaged-machine.ts';

/** A violation, in words; undefined: all is as it must be. */
export type Outcome = string | undefined;

/** Bytes of a file, damaged as its kind may be. */
export function damaged(bytes: Buffer, dice: Dice): Buffer {
  const text = bytes.toString('latin1');
  if (text.startsWith('-----BEGIN') && dice.roll(2) === 0) return damageInsidePem(bytes, dice);
  if (/^[a-z]\w*:/i.test(text) && dice.roll(2) === 0) {
    const value = damageValue(parseYaml(text) as Parameters<typeof damageValue>[0], dice);
    return Buffer.from(toYaml(value));
  }
  return dice.pick(damages)(bytes, dice);
}

/** Each as likely as the others, however many files it has. */
const kindsOfFiles: readonly RegExp[] = [
  /^kubernetes\/[^/]+\.conf$/,
  /^kubernetes\/[^/]+\.conf$/,
  /^kubernetes\/pki\/.*\.crt$/,
  /^kubernetes\/pki\/.*\.crt$/,
  /^kubernetes\/pki\/.*\.key$/,
  /^kubelet\/pki\//,
  /^kubelet\/k?[a-z-]*\.|^kubernetes\/manifests\//,
  /^backup\//,
];

export class MachineCases implements AsyncDisposable {
  readonly #machine: DamagedMachine;
  readonly #files: ReadonlyMap<string, Buffer>;
  readonly #before: MachineLook;
  readonly #restore: () => Promise<void>;

  private constructor(
    ...made: readonly [DamagedMachine, ReadonlyMap<string, Buffer>, MachineLook, () => Promise<void>]
  ) {
    [this.#machine, this.#files, this.#before, this.#restore] = made;
  }

  static async create(): Promise<MachineCases> {
    const machine = await DamagedMachine.create();
    const names = await machine.files();
    const files = new Map(await Promise.all(names.map(async (name) => [name, await machine.read(name)] as const)));
    const before = await machine.look();
    const ill = [...decided(before.plan)].filter(([, decision]) => decision !== 'keep Healthy');
    if (ill.length > 0) throw new Error(`The machine is not healthy: ${ill.join('; ')}`);
    return new MachineCases(machine, files, before, await machine.keep());
  }

  async run(dice: Dice): Promise<Outcome> {
    const kind = dice.pick(kindsOfFiles);
    const [file, bytes] = dice.pick([...this.#files].filter(([name]) => kind.test(name)));
    const next = damaged(bytes, dice);
    const owner = this.#machine.ownerOf(file, this.#before.resolved);
    await this.#machine.write(file, next);
    const told = `${file} (${owner?.name ?? 'of no entry'}), ${bytes.length} bytes before and ${next.length} after`;
    let repaired = false;
    try {
      const known = this.#machine.isDiscovered(file) ? undefined : this.#before.resolved;
      const look = await this.#machine.look(now, known);
      const problem = this.#problemOf(look, owner, file);
      if (problem !== undefined) return `${told}: ${problem}`;
      const isDue = look.plan.decisions.some(({ action }) => action === 'renew');
      if (!isDue || dice.roll(3) > 0) return undefined;
      repaired = true;
      await this.#machine.repair(look);
      const left = this.#leftOf(await this.#machine.look());
      return left && `${told}: ${left}`;
    } catch (err) {
      return `${told}: thrown: ${err instanceof Error ? err.stack : String(err)}`;
    } finally {
      await (repaired ? this.#restore() : this.#machine.write(file, bytes));
    }
  }

  #problemOf({ gathered, plan }: MachineLook, owner: ResolvedArtefact | undefined, file: string): Outcome {
    const faults = [...(gathered.faults ?? []), ...(plan.faults ?? [])];
    if (faults.length > 0) return `faults: ${faults.map(([name, err]) => `${name}: ${String(err)}`).join('; ')}`;
    const before = decided(this.#before.plan);
    for (const { artefact, action, reason, message } of plan.decisions) {
      const decision = `${action} ${reason}`;
      if (artefact === owner?.name || decision === before.get(artefact)) continue;
      // Without its CA a leaf can only wait; it may say so, and is not touched.
      if (owner?.kind === 'signer' && action !== 'renew') continue;
      // A manifest names the place of an entry: a damaged one may leave it waiting for a person, and nothing is made there.
      if (file.startsWith('kubernetes/manifests/') && action === 'blocked') continue;
      return `${artefact} became "${decision}": ${message}`;
    }
    return undefined;
  }

  #leftOf({ plan }: MachineLook): Outcome {
    const left = plan.decisions.filter(({ action }) => action === 'renew');
    return left.length === 0
      ? undefined
      : `after its repair: ${left.map(({ artefact, message }) => `${artefact}: ${message}`).join('; ')}`;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#machine[Symbol.asyncDispose]();
  }
}

export interface Cases {
  run(dice: Dice): Promise<Outcome>;
}

/** What went wrong in so many cases, each with the seed that makes it again: `DAMAGE_SEED=<seed> DAMAGE_CASES=1`. */
export async function violationsOf(cases: Cases, { seed, count }: { readonly seed: number; readonly count: number }) {
  const violations: string[] = [];
  for (let at = 0; at < count && violations.length < 5; at += 1) {
    const outcome = await cases.run(new Dice(seed + at));
    if (outcome !== undefined) violations.push(`DAMAGE_SEED=${seed + at} DAMAGE_CASES=1: ${outcome}`);
  }
  return violations;
}

/** From the environment, or these. */
export function damageOptions(seed: number, count: number): { readonly seed: number; readonly count: number } {
  const { DAMAGE_SEED: from = seed, DAMAGE_CASES: cases = count } = process.env;
  return { seed: Number(from), count: Number(cases) };
}
