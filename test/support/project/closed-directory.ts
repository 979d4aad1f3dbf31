// Where tests and the demo make their temporary directories as root: what root goes by must not lie below a directory that
// everybody may write, as /tmp is, and not below /etc or /var, which tests move. Imported first, for its effect; who names a TMPDIR knows better.
import { mkdirSync } from 'node:fs';

if (process.getuid?.() === 0 && process.env['TMPDIR'] === undefined) {
  process.env['TMPDIR'] = '/srv/kube-cert-recovery-tests';
  mkdirSync(process.env['TMPDIR'], { recursive: true, mode: 0o755 });
}
