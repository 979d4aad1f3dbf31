// Command readers says what Go makes of a certificate, a key pair, a bundle, a kubeconfig or a certificate signing request,
// as the components that read them do, and whether a leaf is signed by one of some roots. A case on standard input is one line of JSON: its kind, and its files in base64. An answer is one line of JSON.
package main

import (
	"bufio"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
)

type question struct {
	Kind string `json:"kind"`
	// In base64, as encoding/json has it.
	Content []byte `json:"content"`
	Key     []byte `json:"key"`
	// Of a leaf: PEM of who may have signed it, and when that is asked, in seconds since the epoch.
	Roots []byte `json:"roots"`
	At    int64  `json:"at"`
	// Of a chain: PEM of what comes along with the leaf, and what it is to be used for.
	Intermediates []byte `json:"intermediates"`
	Usage         string `json:"usage"`
	Hostname      string `json:"hostname"`
}

type answer struct {
	Accepted bool   `json:"accepted"`
	Reason   string `json:"reason,omitempty"`
	// Of a certificate or a bundle: DER of what was read.
	Certificates [][]byte `json:"certificates,omitempty"`
	// Of a certificate: seconds since the epoch.
	NotBefore int64 `json:"notBefore,omitempty"`
	NotAfter  int64 `json:"notAfter,omitempty"`
	// Of a kubeconfig: what its current context comes to.
	Server    string `json:"server,omitempty"`
	Leaf      []byte `json:"leaf,omitempty"`
	LeafKey   []byte `json:"leafKey,omitempty"`
	Authority []byte `json:"authority,omitempty"`
	// Of a request, in base64 what may be no text.
	Request *request `json:"request,omitempty"`
}

type request struct {
	CommonName    []byte   `json:"commonName"`
	Organizations [][]byte `json:"organizations"`
	// How many attributes its subject has.
	Names      int      `json:"names"`
	Subject    []byte   `json:"subject"`
	PublicKey  []byte   `json:"publicKey"`
	DNS        [][]byte `json:"dns"`
	Emails     [][]byte `json:"emails"`
	IPs        []string `json:"ips"`
	URIs       int      `json:"uris"`
	Extensions []string `json:"extensions"`
}

func refused(err error) answer { return answer{Reason: err.Error()} }

func certificate(der []byte) answer {
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return refused(err)
	}
	return answer{Accepted: true, NotBefore: parsed.NotBefore.Unix(), NotAfter: parsed.NotAfter.Unix()}
}

// How serving certificates, client certificates of kubeconfigs and etcd's pairs are read.
func pair(cert, key []byte) answer {
	read, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return refused(err)
	}
	return answer{Accepted: true, Certificates: read.Certificate}
}

// How kube-apiserver and the kubelet read --client-ca-file.
func bundle(text []byte) answer {
	read, err := certutil.ParseCertsPEM(text)
	if err != nil {
		return refused(err)
	}
	found := answer{Accepted: true}
	for _, one := range read {
		found.Certificates = append(found.Certificates, one.Raw)
	}
	return found
}

// How certificate-authority-data of a kubeconfig is read.
func pool(text []byte) answer {
	return answer{Accepted: x509.NewCertPool().AppendCertsFromPEM(text)}
}

// How etcd reads --trusted-ca-file (client/pkg/v3/tlsutil, NewCertPool).
func etcdBundle(text []byte) answer {
	found := answer{Accepted: true}
	for {
		var block *pem.Block
		block, text = pem.Decode(text)
		if block == nil {
			return found
		}
		read, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return refused(err)
		}
		found.Certificates = append(found.Certificates, read.Raw)
	}
}

// How every component verifies whom it talks to: by the first certificate, and roots that are valid, too.
func verified(text, roots []byte, at int64) answer {
	read, err := certutil.ParseCertsPEM(text)
	if err != nil {
		return refused(err)
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(roots) {
		return refused(fmt.Errorf("no root"))
	}
	options := x509.VerifyOptions{Roots: trusted, CurrentTime: time.Unix(at, 0), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	if _, err := read[0].Verify(options); err != nil {
		return refused(err)
	}
	return answer{Accepted: true}
}

// How a component verifies its peer in a handshake (crypto/tls): the chain, its usage and name, and the size of the leaf's key,
// with which the handshake is signed.
func chain(asked question) answer {
	leaf, err := certutil.ParseCertsPEM(asked.Content)
	if err != nil {
		return refused(err)
	}
	trusted, between := x509.NewCertPool(), x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(asked.Roots) {
		return refused(fmt.Errorf("no root"))
	}
	between.AppendCertsFromPEM(asked.Intermediates)
	usages := map[string]x509.ExtKeyUsage{"": x509.ExtKeyUsageAny, "serverAuth": x509.ExtKeyUsageServerAuth, "clientAuth": x509.ExtKeyUsageClientAuth}
	options := x509.VerifyOptions{
		Roots: trusted, Intermediates: between, CurrentTime: time.Unix(asked.At, 0),
		KeyUsages: []x509.ExtKeyUsage{usages[asked.Usage]}, DNSName: asked.Hostname,
	}
	if _, err := leaf[0].Verify(options); err != nil {
		return refused(err)
	}
	if key, ok := leaf[0].PublicKey.(*rsa.PublicKey); ok {
		if _, err := rsa.EncryptPKCS1v15(rand.Reader, key, []byte("size")); err != nil {
			return refused(err)
		}
	}
	return answer{Accepted: true}
}

func bytesOf(texts []string) [][]byte {
	found := [][]byte{}
	for _, one := range texts {
		found = append(found, []byte(one))
	}
	return found
}

// How kube-apiserver and the signers of kube-controller-manager read spec.request (pkg/apis/certificates, ParseCSR), and
// whether its own key has signed it, which they do not ask.
func certificateRequest(text []byte) answer {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return refused(fmt.Errorf("PEM block type must be CERTIFICATE REQUEST"))
	}
	read, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return refused(err)
	}
	if err := read.CheckSignature(); err != nil {
		return refused(err)
	}
	found := request{
		CommonName: []byte(read.Subject.CommonName), Organizations: bytesOf(read.Subject.Organization),
		Names: len(read.Subject.Names), Subject: read.RawSubject, PublicKey: read.RawSubjectPublicKeyInfo,
		DNS: bytesOf(read.DNSNames), Emails: bytesOf(read.EmailAddresses), URIs: len(read.URIs),
		IPs: []string{}, Extensions: []string{},
	}
	for _, ip := range read.IPAddresses {
		found.IPs = append(found.IPs, ip.String())
	}
	for _, extension := range read.Extensions {
		found.Extensions = append(found.Extensions, extension.Id.String())
	}
	return answer{Accepted: true, Request: &found}
}

func kubeconfig(text []byte) answer {
	config, err := clientcmd.Load(text)
	if err != nil {
		return refused(err)
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return refused(fmt.Errorf("no context %q", config.CurrentContext))
	}
	cluster, user := config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	if cluster == nil || user == nil {
		return refused(fmt.Errorf("context %q names a cluster or a user that is not there", config.CurrentContext))
	}
	_, err = clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{ClusterDefaults: clientcmdapi.Cluster{}}).ClientConfig()
	if err != nil {
		return refused(err)
	}
	return answer{
		Accepted: true, Server: cluster.Server, Authority: cluster.CertificateAuthorityData,
		Leaf: user.ClientCertificateData, LeafKey: user.ClientKeyData,
	}
}

func ask(asked question) answer {
	switch asked.Kind {
	case "certificate":
		return certificate(asked.Content)
	case "pair":
		return pair(asked.Content, asked.Key)
	case "bundle":
		return bundle(asked.Content)
	case "pool":
		return pool(asked.Content)
	case "etcdBundle":
		return etcdBundle(asked.Content)
	case "kubeconfig":
		return kubeconfig(asked.Content)
	case "request":
		return certificateRequest(asked.Content)
	case "leaf":
		return verified(asked.Content, asked.Roots, asked.At)
	case "chain":
		return chain(asked)
	}
	return answer{Reason: "unknown kind " + asked.Kind}
}

func main() {
	input := json.NewDecoder(bufio.NewReader(os.Stdin))
	output := bufio.NewWriter(os.Stdout)
	defer output.Flush()
	encoder := json.NewEncoder(output)
	for input.More() {
		var asked question
		if err := input.Decode(&asked); err != nil {
			fmt.Fprintln(os.Stderr, "Cannot read the question:", err)
			os.Exit(1)
		}
		if err := encoder.Encode(ask(asked)); err != nil {
			os.Exit(1)
		}
	}
}
