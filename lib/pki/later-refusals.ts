// What Go has begun to refuse in certificates, told from what no Go has ever accepted: a cluster whose components are
// built with an older Go (or with GODEBUG=x509negativeserial=1) goes on with it, so it is no damage, and nothing is thrown
// away for it.
const releases = ['1.23', '1.24', '1.25'] as const;
export type GoRelease = (typeof releases)[number];

export interface LaterRefusal {
  /** The first release that refuses it. */
  readonly since: GoRelease;
  /** A sentence without its end: `its serial number is negative`. */
  readonly problem: string;
}

export interface Later {
  /** Of all that was noted, what was refused first. */
  readonly refusal: LaterRefusal | undefined;
  note(since: GoRelease, problem: string): void;
  /** Notes what `check` throws as a RangeError. */
  ask(since: GoRelease, check: () => void): void;
}

export function laterRefusals(): Later {
  let first: LaterRefusal | undefined;
  const note = (since: GoRelease, problem: string): void => {
    if (first === undefined || releases.indexOf(since) < releases.indexOf(first.since)) first = { since, problem };
  };
  return {
    get refusal() {
      return first;
    },
    note,
    ask(since, check) {
      try {
        check();
      } catch (err) {
        if (!(err instanceof RangeError)) throw err;
        note(since, err.message);
      }
    },
  };
}
