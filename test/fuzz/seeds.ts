// Valid inputs that are the same in every run: keys from fixed bytes, certificates that were made once with them.
import { createPrivateKey, type KeyObject } from 'node:crypto';
import { attribute, names, oidDer, requestOfForm, wish } from '../support/certificates/request-forms.ts';
import { writeDer } from '../../lib/pki/der.ts';

/** Ed25519, whose signatures are the same each time: of the CA, and of both leaves. */
const keyOf = (byte: number): KeyObject =>
  createPrivateKey({
    key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.alloc(32, byte)]),
    format: 'der',
    type: 'pkcs8',
  });
const leafKey = keyOf(2);

export const authorityPem = `-----BEGIN CERTIFICATE-----
MIIBSjCB/aADAgECAhBM6mb6f4VpuDPcSOrOXs4MMAUGAytlcDAVMRMwEQYDVQQD
EwprdWJlcm5ldGVzMB4XDTI2MDEwMTAwMDAwMFoXDTM2MDEwMTAwMDAwMFowFTET
MBEGA1UEAxMKa3ViZXJuZXRlczAqMAUGAytlcAMhAIqI4910CfGV/VLbLTy6XXLK
Zwm/HZQSG/N0iAG0D29co2MwYTAOBgNVHQ8BAf8EBAMCAqQwDwYDVR0TAQH/BAUw
AwEB/zAdBgNVHQ4EFgQUmtGeDxbu9xTLkMbxldvOZulFgPkwHwYDVR0jBBgwFoAU
mtGeDxbu9xTLkMbxldvOZulFgPkwBQYDK2VwA0EAdvvinlspVhvji0cWklahQoxn
hS0xsE9hihiBYcnu+JHl7GO3eqjjacGFlrbhW2DyuMXVmmsoFXVEXY79qnADBA==
-----END CERTIFICATE-----
`;

/** A kubelet's, which has ended on 2026-02-01. */
export const clientPem = `-----BEGIN CERTIFICATE-----
MIIBezCCAS2gAwIBAgIQXFbQ6zBTc+9/kUJGouZngjAFBgMrZXAwFTETMBEGA1UE
AxMKa3ViZXJuZXRlczAeFw0yNjAxMDEwMDAwMDBaFw0yNjAyMDEwMDAwMDBaMDMx
FTATBgNVBAoTDHN5c3RlbTpub2RlczEaMBgGA1UEAxMRc3lzdGVtOm5vZGU6cGFu
ZGEwKjAFBgMrZXADIQCBOXcOqH0XX1ajVGbDTH7My42KkbTuN6Jd9g9bj8mzlKN1
MHMwDgYDVR0PAQH/BAQDAgWgMBMGA1UdJQQMMAoGCCsGAQUFBwMCMAwGA1UdEwEB
/wQCMAAwHQYDVR0OBBYEFGloTlHaVfFuU1yq3MDFxawXc8OnMB8GA1UdIwQYMBaA
FJrRng8W7vcUy5DG8ZXbzmbpRYD5MAUGAytlcANBANU1X0k//IO/6EAm2OfLooZ4
3Q4m+3vqMrmMbJM4N1LjQG7H8VShly0iN4q3pAXvyTpdeSglmclJb3vBKovsrws=
-----END CERTIFICATE-----
`;

export const servingPem = `-----BEGIN CERTIFICATE-----
MIIBpjCCAVigAwIBAgIQRvhGIJJ7bEwyCjxHjOTiXzAFBgMrZXAwFTETMBEGA1UE
AxMKa3ViZXJuZXRlczAeFw0yNjAxMDEwMDAwMDBaFw0yNzAxMDEwMDAwMDBaMBkx
FzAVBgNVBAMTDmt1YmUtYXBpc2VydmVyMCowBQYDK2VwAyEAgTl3Dqh9F19Wo1Rm
w0x+zMuNipG07jeiXfYPW4/Js5SjgbkwgbYwDgYDVR0PAQH/BAQDAgWgMBMGA1Ud
JQQMMAoGCCsGAQUFBwMBMAwGA1UdEwEB/wQCMAAwHQYDVR0OBBYEFGloTlHaVfFu
U1yq3MDFxawXc8OnMB8GA1UdIwQYMBaAFJrRng8W7vcUy5DG8ZXbzmbpRYD5MEEG
A1UdEQQ6MDiHBApgAAGHEP0AAAAAAAAAAAAAAAAAAAGCCmt1YmVybmV0ZXOCEmt1
YmVybmV0ZXMuZGVmYXVsdDAFBgMrZXADQQBzOfkprlNLk67yZ05SlKT5+1G8HKuT
k2KdmPRK70//xJ4H2VaKAjV/+omTd2IdidDJ6iSHpzyRcFSuVqjH+r0B
-----END CERTIFICATE-----
`;

export const leafKeyPem = String(leafKey.export({ format: 'pem', type: 'pkcs8' }));

const algorithm = [oidDer('1.3.101.112')];
export const clientRequestPem = requestOfForm({ key: leafKey, algorithm });
export const servingRequestPem = requestOfForm({
  key: leafKey,
  algorithm,
  attributes: [wish(names(writeDer(0x82, Buffer.from('panda')), writeDer(0x87, Buffer.of(192, 0, 2, 11))))],
});
/** One that no kubelet makes. */
export const oddRequestPem = requestOfForm({
  key: leafKey,
  algorithm,
  attributes: [attribute('1.2.840.113549.1.9.7', writeDer(0x31, writeDer(0x0c, Buffer.from('secret'))))],
});

export const base64 = (text: string): string => Buffer.from(text).toString('base64');

export const kubeconfigYaml = `apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority-data: ${base64(authorityPem)}
    server: https://192.0.2.10:6443
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: system:node:panda
  name: system:node:panda@kubernetes
current-context: system:node:panda@kubernetes
preferences: {}
users:
- name: system:node:panda
  user:
    client-certificate-data: ${base64(clientPem)}
    client-key-data: ${base64(leafKeyPem)}
`;

export const manifestYaml = `apiVersion: v1
kind: Pod
metadata:
  annotations:
    kube-cert-recovery/flags: '["--kubeconfig=/x"]'
  name: kube-apiserver
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-apiserver
    - --advertise-address=192.0.2.10
    - --tls-cert-file=/etc/kubernetes/pki/apiserver.crt
    - --tls-private-key-file=$(PKI)/apiserver.key
    - --service-cluster-ip-range=10.96.0.0/12
    env:
    - name: PKI
      value: /etc/kubernetes/pki
    - name: NODE
      valueFrom: { fieldRef: { fieldPath: spec.nodeName } }
    image: registry.k8s.io/kube-apiserver:v1.35.4@sha256:abc
    name: kube-apiserver
    volumeMounts:
    - mountPath: /etc/kubernetes/pki/
      name: k8s-certs
      readOnly: true
  - command: [sh, -c, 'exec kube-controller-manager --kubeconfig="$CONF" "$@"', x, --leader-elect=true]
    name: other
  volumes:
  - hostPath: { path: /etc/kubernetes/pki, type: DirectoryOrCreate }
    name: k8s-certs
`;

export const unitText = `[Unit]
Description=kubelet
Wants=network-online.target containerd.service

[Service]
# a comment
Environment="KUBELET_KUBECONFIG_ARGS=--kubeconfig=/etc/kubernetes/kubelet.conf" A=b
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
WorkingDirectory=/var/lib/%p
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS \\
  --config=/var/lib/kubelet/config.yaml \${A}
KUBELET_KUBEADM_ARGS="--hostname-override=panda --node-ip=192.0.2.11"
`;
