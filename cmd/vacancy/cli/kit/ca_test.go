package kit

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// caCommand is a command with --ca, given a value.
func caCommand(t *testing.T, value string) *cobra.Command {
	t.Helper()
	cmd := &cobra.Command{Use: "x"}
	AddCAFlag(cmd.Flags())
	must(t, cmd.Flags().Set(caFlag, value))
	return cmd
}

func TestAFileOfAuthoritiesIsCheckedBeforeAnythingElse(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	der := s.Certificate().Raw
	good := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("a secret")}))
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		text string
		says string // "" if the file is good
		hint string
	}{
		"one":      {good, "", ""},
		"two":      {"a remark\n" + good + good, "", ""},
		"empty":    {"\n", "expected certificates in PEM, got an empty file", ""},
		"other":    {"hello", "expected certificates in PEM, which begin with -----BEGIN CERTIFICATE-----, got another text", ""},
		"DER":      {string(der), "expected certificates in PEM, got one in DER", "openssl x509 -inform der"},
		"key":      {good + key, `expected only blocks of the type CERTIFICATE, got "PRIVATE KEY"`, ""},
		"cut":      {good + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der[:50]})), "certificate 2 cannot be read", ""},
		"a folder": {"", ": is a directory", ""},
		"missing":  {"", "there is no file", ""},
	} {
		path := filepath.Join(dir, name)
		switch name {
		case "a folder":
			path = dir
		case "missing":
		default:
			must(t, os.WriteFile(path, []byte(tt.text), 0o600))
		}
		for _, a := range []*App{{}, {Env: map[string]string{caEnv: path}}} {
			given, source := path, "--ca: "
			if a.Env != nil {
				given, source = "", caEnv+": "
			}
			err := a.PrepareCommand(caCommand(t, given))
			if tt.says == "" {
				if err != nil || a.rootCAs == nil {
					t.Errorf("%s: %v, want it read", name, err)
					continue
				}
				if _, _, err := a.HTTPTransport(0).Get(t.Context(), s.URL); err != nil {
					t.Errorf("%s: a request = %v, want an answer", name, err)
				}
				continue
			}
			if err == nil || a.rootCAs != nil || !strings.HasPrefix(err.Error(), source) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "a secret") {
				t.Errorf("%s: %v; want %q of %s%s", name, err, tt.says, source, path)
			}
			h := ""
			if hinted := new(HintedError); errors.As(err, &hinted) {
				h = hinted.Hint
			}
			if (h == "") != (tt.hint == "") || !strings.Contains(h, tt.hint) {
				t.Errorf("%s: hint %q, want %q", name, h, tt.hint)
			}
		}
	}
	plain := &App{Env: map[string]string{caEnv: "/nowhere"}}
	if err := plain.PrepareCommand(&cobra.Command{Use: "init"}); err != nil {
		t.Errorf("a command without --ca: %v, want the variable left unread", err)
	}
	_, _, err := plain.HTTPTransport(0).Get(t.Context(), s.URL)
	if !problem.Is(err, problem.Unavailable) || !strings.HasPrefix(certificateHint(err), "--ca FILE") {
		t.Errorf("a request without --ca = %v, hint %q; want it refused with --ca as the hint", err, certificateHint(err))
	}
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
