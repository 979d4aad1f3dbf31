// The window in which certificates are renewed ahead of time: days of the week and hours, in a time zone, parsed from
// one text. Pure: the time is an argument; the default zone is the machine's.

/** Hours of a day in minutes since midnight, in local time. */
export interface RenewalWindow {
  /** Days of the week on which the window begins, 0 is Sunday; all days where none is named. */
  readonly days: readonly number[];
  readonly from: number;
  /** More than `from`; beyond 24 hours the window closes on the next day. */
  readonly until: number;
  /** IANA name or offset; undefined: the machine's own zone. */
  readonly zone?: string | undefined;
}

/** One occurrence of the window. `until` is the first moment after it. */
interface WindowTimes {
  readonly from: Date;
  readonly until: Date;
}

const dayNames = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const allDays = dayNames.map((_, day) => day);
const minuteMs = 60_000;
const dayMinutes = 24 * 60;
/** The timer fires once a minute, and restarts and their proofs take a few. */
const shortestMinutes = 10;

export const windowWanted =
  '"[DAYS/]HH:MM-HH:MM[ ZONE]" of at least ten minutes, such as "02:00-05:00" or "Sat,Sun/22:00-04:00 Europe/Berlin"';

const form = /^(?:([A-Za-z,-]{1,60})\/)?(\d{2}:\d{2})-(\d{2}:\d{2})(?: ([\w+/:-]{1,64}))?$/;

/** Returns undefined where the text is no window, or its zone is not known here. */
export function parseWindow(text: string): RenewalWindow | undefined {
  const [whole, dayText, fromText = '', untilText = '', zone] = form.exec(text) ?? [];
  const days = dayText === undefined ? allDays : parseDays(dayText);
  const [from, end] = [minutesOf(fromText), minutesOf(untilText)];
  if (whole === undefined || days === undefined || from === undefined || end === undefined) return undefined;
  if (from === dayMinutes || from === end || !isZone(zone)) return undefined;
  const until = end > from ? end : end + dayMinutes;
  if (until - from < shortestMinutes) return undefined;
  return { days, from, until, ...(zone !== undefined && { zone }) };
}

/** Parses `Sat,Sun`, `Mon-Fri`, `Sat-Mon`. */
function parseDays(text: string): readonly number[] | undefined {
  const days = new Set<number>();
  for (const part of text.toLowerCase().split(',')) {
    const [first = '', last = first, ...more] = part.split('-');
    const [from, to] = [dayNames.indexOf(first), dayNames.indexOf(last)];
    if (from === -1 || to === -1 || more.length > 0) return undefined;
    for (let day = from; ; day = (day + 1) % 7) {
      days.add(day);
      if (day === to) break;
    }
  }
  return allDays.filter((day) => days.has(day));
}

function minutesOf(text: string): number | undefined {
  const [hours = 99, minutes = 99] = text.split(':').map(Number);
  const total = hours * 60 + minutes;
  return minutes < 60 && total <= dayMinutes ? total : undefined;
}

function isZone(zone: string | undefined): boolean {
  try {
    formatOf(zone);
    return true;
  } catch {
    return false;
  }
}

/** Returns the open window, else the next. None is lost on the day of a clock change: see `momentOf`. */
export function nextWindow(window: RenewalWindow, now: Date): WindowTimes {
  const today = Math.floor(onTheWall(window.zone, now.getTime()) / (dayMinutes * minuteMs));
  // From yesterday, because that window may last past midnight, to this day in a week and one more.
  for (let day = today - 1; day <= today + 8; day += 1) {
    // 1970-01-01 was a Thursday.
    if (!window.days.includes((((day + 4) % 7) + 7) % 7)) continue;
    const times = timesOn(day, window);
    if (now < times.until) return times;
  }
  return timesOn(today + 9, window); // every week has the day that it names
}

function timesOn(day: number, { from, until, zone }: RenewalWindow): WindowTimes {
  const midnight = day * dayMinutes * minuteMs;
  const begins = momentOf(midnight + from * minuteMs, zone, 'first');
  const ends = momentOf(midnight + until * minuteMs, zone, 'last');
  // The hour that a clock change skips in spring may be most of the window: then it lasts as long as on other days.
  const lasts = ends - begins >= shortestMinutes * minuteMs ? ends : begins + (until - from) * minuteMs;
  return { from: new Date(begins), until: new Date(lasts) };
}

/**
 * Converts local time to a moment. A time that occurs twice (in autumn) is its first or its last occurrence; a time
 * that is skipped (in spring) lies as long after the change as without the change.
 */
function momentOf(wall: number, zone: string | undefined, which: 'first' | 'last'): number {
  const around = [wall - dayMinutes * minuteMs, wall + dayMinutes * minuteMs];
  const [before = wall, after = wall] = around.map((near) => wall - (onTheWall(zone, near) - near));
  const shown = [before, after].filter((moment) => onTheWall(zone, moment) === wall);
  if (shown.length === 0) return before;
  return which === 'first' ? Math.min(...shown) : Math.max(...shown);
}

/** Local time at that moment, as if it were UTC. Whole seconds. */
function onTheWall(zone: string | undefined, moment: number): number {
  const parts = formatOf(zone).formatToParts(moment);
  const part = (type: Intl.DateTimeFormatPartTypes): number => Number(parts.find((one) => one.type === type)?.value);
  return Date.UTC(part('year'), part('month') - 1, part('day'), part('hour'), part('minute'), part('second'));
}

/** Cache of formats: making one costs more than using it a thousand times. */
const formats = new Map<string | undefined, Intl.DateTimeFormat>();

/** Throws RangeError for an unknown zone. */
function formatOf(zone: string | undefined): Intl.DateTimeFormat {
  const known = formats.get(zone);
  if (known !== undefined) return known;
  const format = new Intl.DateTimeFormat('en-US', {
    calendar: 'gregory',
    numberingSystem: 'latn',
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
    ...(zone !== undefined && { timeZone: zone }),
  });
  formats.set(zone, format);
  return format;
}
