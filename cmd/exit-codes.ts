export const exitCodes = {
  done: 0,
  failed: 1,
  usage: 2,
  expired: 3,
  expiring: 4,
} as const;
