package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
		r := &homeReport{app: &app{out: io.Discard}, progress: &progressLine{}}
		err := streamLines(context.Background(), admin.Client{HTTP: s.Client(), URL: s.URL}, "/v1/admin/verify", r.take)
		s.Close()
		if tc.want == problem.Kind(255) && err == nil {
			continue
		}
		if p := new(problem.Error); !errors.As(err, &p) || p.Kind != tc.want {
			t.Errorf("%s: streamLines() = %v, want %v", name, err, tc.want)
		}
	}
}

func TestProgressIsWrittenOverAndErased(t *testing.T) {
	var out strings.Builder
	p := &progressLine{w: &out}
	p.clear()
	p.show("%d rows", 5)
	p.show("%d rows", 6)
	p.clear()
	p.clear()
	if want := "\r\x1b[K5 rows\r\x1b[K6 rows\r\x1b[K"; out.String() != want {
		t.Errorf("progress = %q, want %q", out.String(), want)
	}
}

func TestProgressOfSilentWork(t *testing.T) {
	var out strings.Builder
	ticks, failed := make(chan time.Time), errors.New("no")
	run := func() error {
		at := time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)
		ticks <- at
		ticks <- at.Add(9 * time.Second)
		return failed
	}
	if err := (&progressLine{w: &out}).during("building", ticks, run); err != failed {
		t.Errorf("during() = %v, want what the run ended with", err)
	}
	if want := "\r\x1b[K  1 s  building\r\x1b[K 10 s  building\r\x1b[K"; out.String() != want {
		t.Errorf("progress = %q, want %q", out.String(), want)
	}
	out.Reset()
	if _ = (&progressLine{}).during("building", ticks, run); out.Len() > 0 {
		t.Errorf("progress where there is no terminal = %q, want none", out.String())
	}
}
