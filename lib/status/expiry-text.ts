// Dates and durations as `kubeadm certs check-expiration` prints them. Pure.

/** Go's layout "Jan 02, 2006 15:04 MST", in UTC. */
export function expiresText(date: Date): string {
  const [, month = '', day = ''] = /^\w+, (\d+) (\w+)/.exec(date.toUTCString()) ?? [];
  const [hours, minutes] = [date.getUTCHours(), date.getUTCMinutes()].map((part) => String(part).padStart(2, '0'));
  return `${day} ${month}, ${date.getUTCFullYear()} ${hours}:${minutes} UTC`;
}

/** HumanDuration of k8s.io/apimachinery (pkg/util/duration): two units while the larger is small, else the larger. */
export function residualText(ms: number): string {
  const seconds = Math.trunc(ms / 1000);
  if (seconds < -1) return '<invalid>';
  if (seconds < 0) return '0s';
  if (seconds < 2 * 60) return `${seconds}s`;
  const minutes = Math.trunc(seconds / 60);
  if (minutes < 10) return units(minutes, 'm', seconds % 60, 's');
  if (minutes < 3 * 60) return `${minutes}m`;
  const hours = Math.trunc(minutes / 60);
  if (hours < 8) return units(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return `${hours}h`;
  const days = Math.trunc(hours / 24);
  if (days < 8) return units(days, 'd', hours % 24, 'h');
  if (days < 2 * 365) return `${days}d`;
  const years = Math.trunc(days / 365);
  return years < 8 ? units(years, 'y', days % 365, 'd') : `${years}y`;
}

function units(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit}${small}${smallUnit}`;
}
