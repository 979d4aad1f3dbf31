// A thread that asks an API server for its serving certificate over and over: beside a loop under test, it must not
// take the time of that loop's own thread. Give it {port, ca, stop}; it answers with a HandshakeReport.
import { connect } from 'node:tls';
import { parentPort, workerData } from 'node:worker_threads';

export interface HandshakeTask {
  readonly port: number;
  readonly ca: string;
  /** Set its first number to 1 to end it. */
  readonly stop: SharedArrayBuffer;
}

export interface HandshakeReport {
  readonly handshakes: number;
  /** SHA-256 fingerprints of all certificates that were served. */
  readonly fingerprints: readonly string[];
  readonly failures: readonly string[];
}

const { port, ca, stop } = workerData as HandshakeTask;
const flag = new Int32Array(stop);
const fingerprints = new Set<string>();
const failures: string[] = [];

function servedFingerprint(): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, servername: 'localhost', ca }, () => {
      resolve(socket.getPeerCertificate().fingerprint256);
      socket.destroy();
    });
    socket.once('error', reject);
  });
}

let handshakes = 0;
for (; Atomics.load(flag, 0) === 0; handshakes += 1) {
  try {
    fingerprints.add(await servedFingerprint());
  } catch (err) {
    failures.push(String(err));
  }
}
const report: HandshakeReport = { handshakes, fingerprints: [...fingerprints], failures };
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread's port, not a window
parentPort?.postMessage(report);
