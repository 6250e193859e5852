package standalone

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// CertFiles is a certificate in PEM files that are read again when they change.
type CertFiles struct {
	CertPath, KeyPath string
	Log               *slog.Logger
	Now               func() time.Time

	mu        sync.Mutex
	lastCheck time.Time
	fileState string
	current   *tls.Certificate
}

const certCheckInterval = time.Second

func (c *CertFiles) Config() (*tls.Config, error) {
	if err := c.reload(); err != nil {
		return nil, err
	}
	return serverConfig(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.currentCertificate(), nil }), nil
}

func serverConfig(certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: certificate}
}

// If changed files cannot be used, currentCertificate logs an error and returns the previous
// certificate.
func (c *CertFiles) currentCertificate() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	if elapsed := now.Sub(c.lastCheck); elapsed >= 0 && elapsed < certCheckInterval {
		return c.current
	}
	c.lastCheck = now
	if c.fileState == c.readFileState() {
		return c.current
	}
	oldState := c.fileState
	if err := c.reload(); err != nil {
		if c.fileState != oldState { // log once per change
			c.Log.Error("the new certificate cannot be used; the host continues with the previous one", "cause", err.Error())
		}
		return c.current
	}
	c.Log.Info("the certificate was read again", "not_after", c.current.Leaf.NotAfter.UTC().Format(time.RFC3339))
	return c.current
}

func (c *CertFiles) readFileState() string {
	state := ""
	for _, path := range []string{c.CertPath, c.KeyPath} {
		info, err := os.Stat(path)
		if err != nil {
			state += err.Error()
			continue
		}
		state += info.ModTime().String() + info.Mode().String()
	}
	return state
}

func (c *CertFiles) reload() error {
	c.fileState = c.readFileState()
	pair, err := tls.LoadX509KeyPair(c.CertPath, c.KeyPath)
	if err != nil {
		return problem.Wrap(problem.Usage, err, "the certificate %s and the key %s cannot be used: %v", c.CertPath, c.KeyPath, err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return problem.Wrap(problem.Usage, err, "the certificate %s cannot be read", c.CertPath)
		}
	}
	if !c.Now().Before(pair.Leaf.NotAfter) {
		return problem.New(problem.Usage, "the certificate %s expired at %s", c.CertPath, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	c.current = &pair
	return nil
}

func (c *CertFiles) CheckHostname(host string) error {
	if err := c.current.Leaf.VerifyHostname(host); err != nil {
		return problem.Wrap(problem.Usage, err, "the certificate %s is not for %s: %v", c.CertPath, host, err)
	}
	return nil
}

const acmeDir = "acme"

// ACMEConfig returns the configuration of a server that gets its domain's certificate from an ACME
// authority, for example Let's Encrypt, at the first connection.
func ACMEConfig(dir, domain, directoryURL string, client *http.Client) *tls.Config {
	m := &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(filepath.Join(dir, acmeDir)), HostPolicy: autocert.HostWhitelist(domain),
		Client: &acme.Client{DirectoryURL: directoryURL, HTTPClient: client, UserAgent: "vacancy"},
	}
	c := serverConfig(func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, err := m.GetCertificate(hello)
		if err != nil && !errors.Is(err, context.Canceled) {
			return nil, problem.Wrap(problem.Unavailable, err, "no certificate for %.80q", hello.ServerName)
		}
		return cert, err
	})
	c.NextProtos = append(c.NextProtos, acme.ALPNProto)
	return c
}
