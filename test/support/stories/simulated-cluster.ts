// A control plane as plain data: carries plans out on facts, so that months pass in milliseconds. It makes no
// certificate; what real ones do is shown by the integration tests.
import type { Resolved, ResolvedArtefact } from '../../../lib/inventory/model.ts';
import type { CertificateFacts } from '../../../lib/pki/certificate.ts';
import type { ArtefactFacts } from '../../../lib/plan/facts.ts';
import type { ClockFacts } from '../../../lib/plan/clock-rules.ts';
import type { RenewalPolicy } from '../../../lib/plan/decision.ts';
import type { Plan } from '../../../lib/plan/plan.ts';
import { backDatedMs } from '../../../lib/pki/certificate.ts';
import { pairOf } from '../../../lib/plan/decision.ts';
import { plan } from '../../../lib/plan/plan.ts';
import { certificate } from '../facts.ts';

type Present = ArtefactFacts & { state: 'present' };

export interface Write {
  readonly artefact: string;
  readonly by: string;
  readonly reason: string;
  readonly at: Date;
}

export class SimulatedCluster {
  readonly facts = new Map<string, ArtefactFacts>();
  readonly writes: Write[] = [];
  readonly resolved: Resolved;
  #made = 0;

  constructor(resolved: Resolved) {
    this.resolved = resolved;
    for (const { name, kind } of resolved.artefacts) {
      this.facts.set(name, kind === 'keyPair' || kind === 'opaque' ? this.#present([]) : { state: 'absent' });
    }
  }

  plan(policy: RenewalPolicy, clock: ClockFacts, now: Date): Plan {
    return plan({ resolved: this.resolved, facts: this.facts, policy, clock, now });
  }

  /** Plans and carries out; `seen` is the clock that the planner believes in. Returns how many artefacts it wrote. */
  act(by: string, policy: RenewalPolicy, clock: ClockFacts, seen: Date): number {
    const renewals = this.plan(policy, clock, seen).decisions.filter(({ action }) => action === 'renew');
    for (const { artefact, reason } of renewals) {
      const row = this.resolved.artefacts.find(({ name }) => name === artefact);
      if (row === undefined) throw new Error(`no artefact ${artefact}`);
      this.facts.set(artefact, { ...this.#make(row, seen), since: seen });
      this.writes.push({ artefact, by, reason, at: seen });
    }
    return renewals.length;
  }

  /** As another writer would. */
  make(name: string, now: Date): void {
    const row = this.resolved.artefacts.find((one) => one.name === name);
    if (row === undefined) throw new Error(`no artefact ${name}`);
    this.facts.set(name, this.#make(row, now));
  }

  /** Artefacts that a reader would refuse at `now`: expired, not yet valid, or signed by no CA of their bundle. */
  unusable(now: Date): string[] {
    return this.resolved.artefacts
      .flatMap((row) => {
        const pair = row.kind === 'copy' ? pairOf(this.resolved.artefacts, row) : row;
        return pair?.kind === 'target' || pair?.kind === 'signer' ? [pair] : [];
      })
      .filter((row) => {
        const leaf = this.#certificates(row.name)[0];
        if (leaf === undefined || now < leaf.notBefore || leaf.notAfter <= now) return true;
        if (row.issuer === undefined) return false;
        const { issuer } = row;
        const trust = this.resolved.artefacts
          .filter((bundle) => bundle.kind === 'caBundle' && bundle.signers.includes(issuer))
          .flatMap(({ name }) => this.#certificates(name));
        return !trust.some(({ fingerprint, notAfter }) => leaf.signedBy.includes(fingerprint) && now < notAfter);
      })
      .map(({ name }) => name);
  }

  #certificates(name: string): readonly CertificateFacts[] {
    const fact = this.facts.get(name);
    return fact?.state === 'present' ? fact.certificates : [];
  }

  #present(certificates: readonly CertificateFacts[]): Present {
    this.#made += 1;
    const digest = certificates.map(({ fingerprint }) => fingerprint).join();
    return { state: 'present', version: `${this.#made}`, certificates, digest };
  }

  #make(row: ResolvedArtefact, now: Date): Present {
    switch (row.kind) {
      case 'signer':
      case 'target': {
        const fingerprint = `${row.name}-${this.#made}`;
        const issuer = row.issuer === undefined ? undefined : this.#certificates(row.issuer)[0];
        const own = now.getTime() + row.validity;
        const notAfter = new Date(issuer === undefined ? own : Math.min(own, issuer.notAfter.getTime()));
        const made = certificate(fingerprint, [0, 0], {
          isCa: row.kind === 'signer',
          notBefore: new Date(now.getTime() - backDatedMs),
          notAfter,
          issuer: issuer?.subject ?? `CN=${fingerprint}`,
          ...(row.kind === 'signer' && { commonName: `${row.name}@${Math.floor(now.getTime() / 1000)}` }),
          hostnames: row.kind === 'target' ? row.hostnames : [],
          signedBy: [issuer?.fingerprint ?? fingerprint],
        });
        return this.#present([made]);
      }
      case 'caBundle':
        return this.#present(
          this.#merged(now, [
            ...row.signers.map((name) => this.#certificates(name).slice(0, 1)),
            this.#certificates(row.name),
          ]),
        );
      case 'composedBundle':
        return this.#present(
          this.#merged(
            now,
            row.inputs.map((name) => this.#certificates(name)),
          ),
        );
      case 'copy':
        return this.#present(this.#certificates(row.of));
      case 'kubeconfigs':
      case 'keyPair':
      case 'external':
      case 'opaque':
        throw new Error(`${row.name} is never made`);
    }
  }

  #merged(now: Date, lists: readonly (readonly CertificateFacts[])[]): CertificateFacts[] {
    const live = lists.flat().filter(({ notAfter }) => notAfter > now);
    return [...new Map(live.map((entry) => [entry.fingerprint, entry])).values()].toSorted((a, b) =>
      a.fingerprint < b.fingerprint ? -1 : 1,
    );
  }
}
