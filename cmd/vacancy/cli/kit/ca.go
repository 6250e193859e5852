package kit

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const (
	caFlag = "ca"
	caEnv  = "VACANCY_CA"
)

func AddCAFlag(fs *pflag.FlagSet) {
	fs.String(caFlag, "", "also trust the certificates in `FILE` (PEM) over https (default $"+caEnv+")")
}

// PrepareCommand records the command of this run, and loads the certificates of --ca or $VACANCY_CA
// if the command has this flag.
func (a *App) PrepareCommand(cmd *cobra.Command) error {
	a.currentCommand = cmd
	f := cmd.Flags().Lookup(caFlag)
	if f == nil {
		return nil
	}
	name := "--" + caFlag
	if f.Value.String() == "" {
		name = caEnv
	}
	path := cmp.Or(f.Value.String(), a.Env[caEnv])
	if path == "" {
		return nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if err := addCertificates(roots, name, path); err != nil {
		return err
	}
	a.rootCAs = roots
	return nil
}

func addCertificates(roots *x509.CertPool, source, path string) error {
	usageError := func(format string, args ...any) error {
		return problem.New(problem.Usage, "%s: %s: %s", source, path, fmt.Sprintf(format, args...))
	}
	b, err := os.ReadFile(path)
	var pathErr *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return problem.New(problem.NotFound, "%s: there is no file %s", source, path)
	case errors.As(err, &pathErr):
		return usageError("%s", pathErr.Err) // the message already has the path
	case err != nil:
		return usageError("%s", err)
	}
	certCount := 0
	for rest := b; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return usageError("expected only blocks of the type CERTIFICATE, got %.40q", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return usageError("certificate %d cannot be read: %s", certCount+1, problem.PlainMessage(err))
		}
		roots.AddCert(cert)
		certCount++
	}
	switch {
	case certCount > 0:
		return nil
	case len(bytes.TrimSpace(b)) == 0:
		return usageError("expected certificates in PEM, got an empty file")
	}
	if _, err := x509.ParseCertificate(b); err == nil {
		return WithHint(usageError("expected certificates in PEM, got one in DER"), "openssl x509 -inform der -in %s -out ca.pem", ShellWord(path))
	}
	return usageError("expected certificates in PEM, which begin with -----BEGIN CERTIFICATE-----, got another text")
}

func certificateHint(err error) string {
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)), errors.As(err, new(x509.SystemRootsError)):
		return "--" + caFlag + " FILE, the certificate of that authority in PEM, or set $" + caEnv
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "date -u    # set this machine's clock if it is wrong; otherwise the host needs a new certificate"
	}
	return ""
}

func (a *App) Roots() *x509.CertPool { return a.rootCAs }

func (a *App) HTTPTransport(timeout time.Duration) *dispatch.HTTP {
	return dispatch.NewHTTP(dispatch.HTTPOptions{Timeout: timeout, Roots: a.rootCAs})
}

func (a *App) HTTPClient(timeout time.Duration) *http.Client {
	return dispatch.NewClient(dispatch.HTTPOptions{Timeout: timeout, Roots: a.rootCAs})
}
