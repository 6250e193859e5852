package hostcmd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestAReportThatBreaksOffIsAnErrorAndNeverClean(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
		want   problem.Kind
	}{
		"nothing":           {200, "", problem.Unavailable},
		"no last line":      {200, `{"progress":{"rows":5}}` + "\n", problem.Unavailable},
		"half a line":       {200, `{"result":{"rows":5`, problem.Unavailable},
		"an error":          {200, `{"error":{"detail":"the vault is away","code":"unavailable"}}` + "\n", problem.Unavailable},
		"an error of ours":  {200, `{"error":{"detail":"row 5 is gone","code":"damaged"}}` + "\n", problem.Damaged},
		"a later host's":    {200, `{"error":{"detail":"?","code":"from_the_future"}}` + "\n", problem.Internal},
		"not served":        {404, `{"detail":"this home does not serve it","code":"not_found"}`, problem.NotFound},
		"an older host's":   {404, `page not found`, problem.Internal},
		"an unknown member": {200, `{"news":1}` + "\n" + `{"result":{"rows":5}}` + "\n", problem.Kind(255)},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tc.status)
			_, _ = io.WriteString(w, tc.body)
		}))
		r := &hostReport{App: &kit.App{Out: io.Discard}, progress: &kit.ProgressLine{}}
		err := kit.StreamLines(context.Background(), admin.Client{HTTP: s.Client(), URL: s.URL}, "/v1/admin/verify", r.printLine)
		s.Close()
		if tc.want == problem.Kind(255) && err == nil {
			continue
		}
		if p := new(problem.Error); !errors.As(err, &p) || p.Kind != tc.want {
			t.Errorf("%s: streamLines() = %v, want %v", name, err, tc.want)
		}
	}
}
