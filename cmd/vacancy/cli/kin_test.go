package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/cloudtest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

// slowGate is a stage whose gate takes a while: an admin API over a real
// server, and a gate's function with its own URL.
type slowGate struct {
	t       *testing.T
	handler http.Handler
	sent    []byte             // what the gate received
	line    []graduation.Phase // what each poll returns, in turn
	steps   []gate.StepName
	looks   int
}

func (g *slowGate) view(i int) graduation.View {
	sub, err := graduation.ParseSubmission(g.sent)
	if err != nil {
		g.t.Errorf("what came to the gate: %v", err)
	}
	v := graduation.View{
		ID: graduation.ID{Child: sub.Request.ChildID, Position: 1}.String(), Child: sub.Request.ChildID, Parent: sub.Request.ParentID, Position: 1,
		Phase: g.line[i], Step: g.steps[i], Capability: sub.Request.CapabilityText, Policy: gate.DefaultPolicy(), DueAt: time.Unix(0, 0),
	}
	switch v.Phase {
	case graduation.Accepted:
		v.Outcome = &graduation.Outcome{Endpoint: "https://dev.example/v/x"}
	case graduation.Refused:
		v.Refusal = &graduation.Refusal{Kind: problem.GraduationRateExceeded.String(), Detail: "too many", Step: v.Step}
	}
	return v
}

// ServeHTTP is both handlers.
func (g *slowGate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == admin.GraduationsPath:
		if r.Header["Authorization"] != nil {
			g.t.Error("the operator's key went to the public handler of the gate")
		}
		var err error
		if g.sent, err = io.ReadAll(r.Body); err != nil {
			g.t.Error(err)
		}
		v := g.view(0)
		w.WriteHeader(http.StatusAccepted)
		_ = json.NewEncoder(w).Encode(v)
	case strings.HasSuffix(r.URL.Path, "/graduation"):
		_ = json.NewEncoder(w).Encode(g.view(g.looks))
		g.looks = min(g.looks+1, len(g.line)-1)
	default:
		r.Host = admin.SocketHost
		g.handler.ServeHTTP(w, r)
	}
}

func TestAGraduationOfAStageIsFollowed(t *testing.T) {
	for name, c := range map[string]struct {
		line       []graduation.Phase
		steps      []gate.StepName
		wait       string
		code       int
		says, errs string
	}{
		"accepted at the second look": {[]graduation.Phase{graduation.Open, graduation.Accepted}, []gate.StepName{gate.StepCollusion, gate.StepCommit}, "1m",
			0, "kid has graduated, attempt 1", "collusion ..."},
		"refused": {[]graduation.Phase{graduation.Refused}, []gate.StepName{gate.StepRateLimit}, "1m",
			problem.ExitRefused, "rate_limit refused: too many", "once 24 hours have passed since the oldest"},
		"not waited for": {[]graduation.Phase{graduation.Open}, []gate.StepName{""}, "0", 0, "attempt 1 is open, until", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := onAWS(t)
			s.must("create", "firm", "--capability", "answers", "--host", "local")
			s.must("spawn", "firm", "--path", "D2", "--name", "kid", "--host", "local")
			g := &slowGate{t: t, line: c.line, steps: c.steps}
			web := httptest.NewServer(g)
			defer web.Close()
			a := &kit.App{Env: s.env, Now: s.clock, Rand: s.rand}
			host, err := a.OpenHost(filepath.Join(s.dataHome, "host"))
			must(t, err)
			defer host.Close()
			g.handler = host.Admin()
			rec := cloudtest.DevRecord()
			rec.URL, rec.AdminURL, rec.GraduateURL = "https://dev.example", web.URL, web.URL
			must(t, (stage.Records{Dir: filepath.Join(s.dataHome, "stages")}).Write(rec))
			code, out, errs := s.run("", "graduate", "kid", "--capability", "reviews", "--host", "aws", "--wait", c.wait)
			if code != c.code || !strings.Contains(out, c.says) || !strings.Contains(errs, c.errs) {
				t.Errorf("graduate = %d, %q, %q, want %d, %q, %q", code, out, errs, c.code, c.says, c.errs)
			}
			sub, err := graduation.ParseSubmission(g.sent)
			if err != nil || sub.Request.Verify() != nil {
				t.Errorf("what was sent is not signed by both: %v, %v", err, sub.Request.Verify())
			}
		})
	}
}
