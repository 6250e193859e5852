package standalone_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// certFiles writes a certificate of a number for agents.example.org and its key.
func certFiles(t *testing.T, dir string, serial int64, until time.Time) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "agents.example.org"}, DNSNames: []string{"agents.example.org"},
		NotBefore: until.AddDate(0, -3, 0), NotAfter: until,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	must(t, err)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		must(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	return cert, key
}

func TestACertificateIsReadAgainWhenItsFilesChange(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	cert, key := certFiles(t, dir, 1, c.now().AddDate(0, 1, 0))
	var log strings.Builder
	files := &standalone.CertFiles{CertPath: cert, KeyPath: key, Log: slog.New(slog.NewTextHandler(&log, nil)), Now: c.now}
	config, err := files.Config()
	must(t, err)
	serial := func() int64 {
		t.Helper()
		got, err := config.GetCertificate(&tls.ClientHelloInfo{})
		must(t, err)
		return got.Leaf.SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Errorf("the certificate is number %d, want 1", got)
	}
	touch := func() {
		t.Helper()
		c.add(2 * time.Second)
		for _, path := range []string{cert, key} { // file systems may keep times to a second
			must(t, os.Chtimes(path, c.now(), c.now()))
		}
	}
	for _, tt := range []struct {
		change string
		do     func()
		want   int64
		log    string
	}{
		{"renewed", func() { certFiles(t, dir, 2, c.now().AddDate(0, 3, 0)) }, 2, "read again"},
		{"expired", func() { certFiles(t, dir, 3, c.now().AddDate(0, 0, -1)) }, 2, "expired at"},
		{"half written", func() { os.WriteFile(key, []byte("-----BEGIN"), 0o600) }, 2, "cannot be used"},
		{"gone", func() { os.Remove(key) }, 2, "cannot be used"},
		{"whole again", func() { certFiles(t, dir, 4, c.now().AddDate(0, 3, 0)) }, 4, "read again"},
	} {
		log.Reset()
		tt.do()
		if tt.change != "gone" {
			touch()
		}
		c.add(2 * time.Second)
		if got := serial(); got != tt.want || !strings.Contains(log.String(), tt.log) {
			t.Errorf("%s: the certificate is number %d, log %q; want %d and %q", tt.change, got, log.String(), tt.want, tt.log)
		}
		log.Reset()
		c.add(2 * time.Second)
		if serial(); log.Len() > 0 {
			t.Errorf("%s: logged twice: %q", tt.change, log.String())
		}
	}
}

func TestCertificatesThatCannotBeUsedAreRefusedAtOnce(t *testing.T) {
	dir, other, c := t.TempDir(), t.TempDir(), newClock()
	cert, key := certFiles(t, dir, 1, c.now().AddDate(0, 1, 0))
	_, foreign := certFiles(t, other, 2, c.now().AddDate(0, 1, 0))
	old, oldKey := certFiles(t, t.TempDir(), 3, c.now().AddDate(0, 0, -1))
	for name, tt := range map[string]struct{ cert, key, says string }{
		"no file":        {filepath.Join(dir, "none"), key, "no such file"},
		"another's key":  {cert, foreign, "cannot be used"},
		"a key alone":    {key, key, "cannot be used"},
		"one that ended": {old, oldKey, "expired at 2026-05-05"},
	} {
		files := &standalone.CertFiles{CertPath: tt.cert, KeyPath: tt.key, Log: slog.New(slog.DiscardHandler), Now: c.now}
		if _, err := files.Config(); !problem.Is(err, problem.Usage) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: Config() = %v, want a usage error that says %q", name, err, tt.says)
		}
	}
	files := &standalone.CertFiles{CertPath: cert, KeyPath: key, Log: slog.New(slog.DiscardHandler), Now: c.now}
	if _, err := files.Config(); err != nil {
		t.Fatal(err)
	}
	if err := files.CheckHostname("agents.example.org"); err != nil {
		t.Errorf("CheckHostname() of its name = %v", err)
	}
	if err := files.CheckHostname("other.example.org"); !problem.Is(err, problem.Usage) {
		t.Errorf("CheckHostname() of another name = %v, want a usage error", err)
	}
}
