package standalone_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
)

// authority is a small ACME authority (RFC 8555) that validates tls-alpn-01 (RFC
// 8737) at one address and issues certificates of its own.
type authority struct {
	t      *testing.T
	server *httptest.Server
	domain string
	target string // host:port that is validated
	key    *ecdsa.PrivateKey
	root   *x509.Certificate

	mu      sync.Mutex
	account crypto.PublicKey
	valid   bool
	cert    []byte // PEM
	orders  int
}

func newAuthority(t *testing.T, domain, target string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	root, err := x509.ParseCertificate(der)
	must(t, err)
	a := &authority{t: t, domain: domain, target: target, key: key, root: root}
	a.server = httptest.NewServer(a)
	t.Cleanup(a.server.Close)
	return a
}

const challengeToken = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	url := func(path string) string { return a.server.URL + path }
	w.Header().Set("Replay-Nonce", rand.Text())
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	order := func(status string) map[string]any {
		o := map[string]any{
			"status": status, "identifiers": []any{map[string]string{"type": "dns", "value": a.domain}},
			"authorizations": []string{url("/authz")}, "finalize": url("/finalize"),
		}
		if status == "valid" {
			o["certificate"] = url("/cert")
		}
		return o
	}
	state := map[bool]string{true: "valid", false: "pending"}
	challenge := map[string]string{"type": "tls-alpn-01", "url": url("/challenge"), "token": challengeToken, "status": state[a.valid]}
	payload := a.read(r)
	switch r.URL.Path {
	case "/":
		answer(200, map[string]string{"newNonce": url("/nonce"), "newAccount": url("/account"), "newOrder": url("/order"), "revokeCert": url("/revoke"), "keyChange": url("/change")})
	case "/nonce":
	case "/account":
		w.Header().Set("Location", url("/account/1"))
		answer(201, map[string]string{"status": "valid"})
	case "/order":
		a.orders++
		w.Header().Set("Location", url("/order/1"))
		answer(201, order("pending"))
	case "/authz":
		answer(200, map[string]any{"status": state[a.valid], "identifier": map[string]string{"type": "dns", "value": a.domain}, "challenges": []any{challenge}})
	case "/challenge":
		a.valid = a.validate()
		answer(200, challenge)
	case "/order/1":
		status := map[bool]string{true: "ready", false: "pending"}[a.valid]
		if a.cert != nil {
			status = "valid"
		}
		answer(200, order(status))
	case "/finalize":
		a.issue(payload)
		w.Header().Set("Location", url("/order/1"))
		answer(200, order("valid"))
	case "/cert":
		w.Header().Set("Content-Type", "application/pem-certificate-chain")
		_, _ = w.Write(a.cert)
	default:
		answer(404, map[string]string{"type": "urn:ietf:params:acme:error:malformed", "detail": r.URL.Path})
	}
}

// read returns the payload of a signed request, and keeps the account's key.
func (a *authority) read(r *http.Request) []byte {
	var jws struct{ Protected, Payload string }
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&jws) != nil {
		return nil
	}
	var header struct {
		JWK *struct{ Crv, Kty, X, Y string }
	}
	b, _ := base64.RawURLEncoding.DecodeString(jws.Protected)
	if json.Unmarshal(b, &header) == nil && header.JWK != nil {
		x, _ := base64.RawURLEncoding.DecodeString(header.JWK.X)
		y, _ := base64.RawURLEncoding.DecodeString(header.JWK.Y)
		key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
		if err != nil {
			a.t.Errorf("the account's key: %v", err)
		}
		a.account = key
	}
	payload, _ := base64.RawURLEncoding.DecodeString(jws.Payload)
	return payload
}

// validate makes the connection of tls-alpn-01.
func (a *authority) validate() bool {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", a.target,
		&tls.Config{ServerName: a.domain, NextProtos: []string{acme.ALPNProto}, InsecureSkipVerify: true}) // the certificate is the proof
	if err != nil {
		a.t.Errorf("the authority cannot connect: %v", err)
		return false
	}
	defer conn.Close()
	thumb, err := acme.JWKThumbprint(a.account)
	if err != nil {
		a.t.Error(err)
	}
	want := sha256.Sum256([]byte(challengeToken + "." + thumb))
	leaf := conn.ConnectionState().PeerCertificates[0]
	for _, e := range leaf.Extensions {
		var got []byte
		if e.Id.Equal(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31}) && e.Critical {
			if _, err := asn1.Unmarshal(e.Value, &got); err == nil && string(got) == string(want[:]) {
				return true
			}
		}
	}
	a.t.Errorf("the challenge's certificate is for %v, and proves nothing", leaf.DNSNames)
	return false
}

func (a *authority) issue(payload []byte) {
	var body struct{ CSR string }
	if err := json.Unmarshal(payload, &body); err != nil {
		a.t.Error(err)
		return
	}
	der, _ := base64.RawURLEncoding.DecodeString(body.CSR)
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		a.t.Error(err)
		return
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: a.domain}, DNSNames: csr.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 3, 0),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leaf, err := x509.CreateCertificate(rand.Reader, template, a.root, csr.PublicKey, a.key)
	if err != nil {
		a.t.Error(err)
		return
	}
	for _, der := range [][]byte{leaf, a.root.Raw} {
		a.cert = append(a.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
}

// A certificate comes with the first connection, and is there after a restart
// without the authority.
func TestACertificateComesFromAnAuthority(t *testing.T) {
	const domain = "agents.example.org"
	dir := t.TempDir()
	serve := func(a *authority) net.Listener {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		if a.target == "" {
			a.target = l.Addr().String()
		}
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })}
		go func() {
			_ = s.Serve(tls.NewListener(l, standalone.ACMEConfig(dir, domain, a.server.URL+"/", a.server.Client())))
		}()
		t.Cleanup(func() { s.Close() })
		return l
	}
	a := newAuthority(t, domain, "")
	roots := x509.NewCertPool()
	roots.AddCert(a.root)
	ask := func(l net.Listener, name string) error {
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 20 * time.Second}, "tcp", l.Addr().String(), &tls.Config{ServerName: name, RootCAs: roots})
		if err != nil {
			return err
		}
		return conn.Close()
	}
	first := serve(a)
	if err := ask(first, domain); err != nil {
		t.Fatalf("the first connection = %v", err)
	}
	if err := ask(first, "other.example.org"); err == nil || a.orders != 1 {
		t.Errorf("a connection for another name = %v, after %d orders; want none for it", err, a.orders)
	}
	a.server.Close()
	if err := ask(serve(a), domain); err != nil {
		t.Errorf("after a restart without the authority = %v", err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "acme", "*"))
	if err != nil || !strings.Contains(strings.Join(files, " "), domain) {
		t.Errorf("the data directory keeps %v, %v; want the certificate", files, err)
	}
}
