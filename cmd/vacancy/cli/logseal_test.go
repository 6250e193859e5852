package cli

import (
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/cloudtest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The command runs the checkpointer and prints what the stage's host signed. Without an edge the registry's URL is not
// the URL of calls.
func TestLogSealRunsTheCheckpointerOfAStage(t *testing.T) {
	for name, edge := range map[string]bool{"with an edge": true, "without an edge": false} {
		t.Run(name, func(t *testing.T) {
			s, server := onAWS(t)
			key, err := identity.NewKey(rand.Reader)
			must(t, err)
			host := newLoggedHost(t, key)
			registry, calls := httptest.NewServer(host.handler), httptest.NewServer(http.NotFoundHandler())
			defer registry.Close()
			defer calls.Close()
			rec := cloudtest.DevRecord()
			if rec.URL = registry.URL; !edge {
				rec.URL, rec.RegistryURL = calls.URL, registry.URL
			}
			must(t, (stage.Records{Dir: filepath.Join(s.dataHome, "stages")}).Write(rec))
			server.SetResponder("Invoke", func(r cloudtest.Request) cloudtest.Reply {
				if r.Path != "/2015-03-31/functions/vacancy-dev-checkpointer/invocations" {
					t.Errorf("invoked %s, want the checkpointer", r.Path)
				}
				host.publish(2)
				return cloudtest.Reply{Body: `null`}
			})
			for _, want := range []string{"2 events sealed, 2 of them new\n", "4 events sealed, 2 of them new\n"} {
				if code, out, errs := s.run("", "log", "seal", "--host", "aws"); code != 0 || out != want {
					t.Errorf("log seal = %d, %q, %s, want %q", code, out, errs, want)
				}
			}
			server.SetResponder("Invoke", func(cloudtest.Request) cloudtest.Reply {
				return cloudtest.Reply{Body: `{"errorMessage":"storage"}`, Header: map[string]string{"X-Amz-Function-Error": "Unhandled"}}
			})
			s.fails(problem.ExitUnavailable, "--function checkpointer --once", "log", "seal", "--host", "aws")
		})
	}
}
