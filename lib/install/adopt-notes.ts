// What `status` says of an adopted machine: whose files the components read, and whether their manifests still say so.
import { errorText } from '../errors.ts';
import { readRecord } from './adopt-record.ts';
import { findDrift } from './adopt-repair.ts';

/** Sentences; none on a machine that is not adopted. Never rejects: a report tells what it could not find out. */
export async function adoptionNotes(directory: string): Promise<readonly string[]> {
  try {
    const record = await readRecord(directory);
    if (record === undefined) return [];
    const drifted = await findDrift(record);
    if (drifted.length === 0) {
      return [
        `this machine is adopted: its static pods read files below "${directory}"; kubeadm's own are kept good for etcd, the kubelet and the way back`,
      ];
    }
    return drifted.map(
      ({ message }) =>
        `this machine is adopted, but ${message}; the timer of "init host" repairs that, or "kube-cert-recovery init adopt --repair"`,
    );
  } catch (err) {
    return [errorText(err)];
  }
}
