package e2e

import (
	"os"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/vacancy-host/vacancy/shared/host/billing/tokens/tokenstest"
)

// startIssuer is the command: issuer starts a provider of OpenID Connect, and sets ISSUER to its
// URL.
func startIssuer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: issuer")
	}
	p := tokenstest.New()
	ts.Defer(p.Close)
	ts.Setenv("ISSUER", p.URL)
}

// makeToken is the command: token VARIABLE [CLAIM=VALUE...] sets VARIABLE to a token of ISSUER
// that counts for ten minutes, and writes it to VARIABLE.txt. The subject is ann unless a claim
// says otherwise.
func makeToken(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: token VARIABLE [CLAIM=VALUE...]")
	}
	claims := map[string]any{"iss": ts.Getenv("ISSUER"), "sub": "ann", "exp": time.Now().Add(10 * time.Minute).Unix()}
	for _, arg := range args[1:] {
		claim, value, ok := strings.Cut(arg, "=")
		if !ok {
			ts.Fatalf("token: expected CLAIM=VALUE, got %q", arg)
		}
		claims[claim] = value
	}
	token, err := tokenstest.Sign("ES256", "ES256", claims, nil)
	ts.Check(err)
	ts.Setenv(args[0], token)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".txt"), []byte(token+"\n"), 0o600))
}
