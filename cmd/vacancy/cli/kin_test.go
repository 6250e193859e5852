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

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/clitest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/cloudtest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

const firmPlan = "version: 1\ndelegate:\n- {child: kid, task: '{input}'}\n"

func TestChildrenAndTheirGateAreShownAsWritten(t *testing.T) {
	s := newShell(t)
	s.must("create", "firm", "--capability", "answers questions", "--tenant", "acme")
	clitest.Golden(t, "children-none", s.must("children", "firm"))
	clitest.Golden(t, "spawn", s.must("spawn", "firm", "--path", "d2", "--name", "kid", "--capability", "reviews contracts", "--tools", "mail,files"))
	if out := s.must("spawn", "firm", "--path", "d2", "--name", "kid", "--tools", "mail", "--tools", "files,mail"); !strings.Contains(out, "; it was there already\n") {
		t.Errorf("spawn of a child that is there = %q, want that it says so", out)
	}
	clitest.Golden(t, "spawn.json", s.must("spawn", "firm", "--path", "D3", "--name", "free", "--capability", "sings", "--json"))
	clitest.Golden(t, "children", s.must("children", "firm"))
	clitest.Golden(t, "children.json", s.must("children", "firm", "--json"))
	clitest.Golden(t, "show-child", s.must("show", "kid"))
	clitest.Golden(t, "manifest", s.must("manifest", "kid"))
	clitest.Golden(t, "manifest.json", s.must("manifest", "kid", "--json"))
	clitest.Golden(t, "gate", s.must("gate", "show"))
	clitest.Golden(t, "gate-nobody", s.must("gate", "show", "--tenant", "nobody"))
	clitest.Golden(t, "gate.json", s.must("gate", "set", "--mode", "strict", "--limit", "5", "--threshold", "0.5", "--tenant", "acme", "--json"))
	code, out, errs := s.run("", "graduate", "kid", "--capability", "reviews contracts", "--explain")
	if code != problem.ExitRefused || !strings.Contains(errs, "try: vacancy graduate kid --explain") {
		t.Errorf("graduate of an echo of its parent = %d, %s, want that it is refused", code, errs)
	}
	clitest.Golden(t, "graduate-refused", out)
	code, out, errs = s.run(firmPlan, "plan", "set", "firm", "-")
	if code != 0 {
		t.Fatalf("plan set = %d, %s", code, errs)
	}
	clitest.Golden(t, "plan", out)
	clitest.Golden(t, "plan.json", s.must("plan", "show", "firm", "--json"))
	s.must("gate", "set", "--mode", "default", "--tenant", "acme")
	clitest.Golden(t, "graduate", s.must("graduate", "kid", "--capability", "reviews contracts"))
	clitest.Golden(t, "graduate.json", s.must("graduate", "kid", "--capability", "reviews contracts", "--json"))
	clitest.Golden(t, "manifest-graduated", s.must("manifest", "kid"))
}

func TestFamilyCommandsExitByErrorKind(t *testing.T) {
	s := newShell(t)
	s.must("create", "firm", "--capability", "answers questions")
	s.must("spawn", "firm", "--path", "D2", "--name", "kid")
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"spawn firm --path D2", problem.ExitUsage, "--name is missing"},
		{"spawn firm --path D9 --name x", problem.ExitUsage, "path: expected D1 to D5"},
		{"spawn nobody --path D2 --name x", problem.ExitNotFound, "nobody"},
		{"spawn firm --path D3 --name kid --capability x", problem.ExitConflict, "kid"},
		{"children nobody", problem.ExitNotFound, "nobody"},
		{"manifest firm", problem.ExitNotFound, "not a known child"},
		{"manifest kid --take absent", problem.ExitNotFound, "absent"},
		{"plan show firm", problem.ExitNotFound, "no plan"},
		{"plan set firm absent.yaml", problem.ExitNotFound, "absent.yaml"},
		{"gate set", problem.ExitUsage, "nothing is given"},
		{"gate set --limit 0", problem.ExitUsage, "limit: expected 1 to 1000, got 0"},
		{"gate set --limit 0 --json", problem.ExitUsage, `"field":"limit"`},
		{"gate set --threshold NaN", problem.ExitUsage, "threshold: expected 0 to 1, got NaN"},
		{"gate set --limit 1 --tenant=", problem.ExitUsage, "--tenant: expected a tenant"},
		{"gate show --tenant=", problem.ExitUsage, "--tenant: expected a tenant"},
		{"publish kid", problem.ExitRefused, `try: vacancy graduate kid --capability "TEXT"`},
		{"graduate kid --capability x --manifest m.json", problem.ExitUsage, "--manifest goes with --print"},
		{"graduate kid --capability x --registry https://x.example", problem.ExitUsage, "--registry goes with --print"},
		{"graduate kid --capability x --explain --print", problem.ExitUsage, "do not go together"},
		{"gate set --detector none", problem.ExitUsage, "detector"},
		{"graduate kid", problem.ExitUsage, "--capability is missing"},
		{"graduate kid --explain", problem.ExitNotFound, "has not asked"},
		{"graduate nobody --capability x", problem.ExitNotFound, "nobody"},
		{"graduate firm --capability x", problem.ExitNotFound, "not a known child"},
		{"graduate kid --capability x --endpoint https://x.example", problem.ExitUsage, "runs elsewhere"},
	} {
		code, out, errs := s.run("", strings.Fields(tc.args)...)
		if code != tc.code || out != "" || !strings.Contains(errs, tc.want) {
			t.Errorf("vacancy %s = exit %d, %q, %q; want %d and %q", tc.args, code, out, errs, tc.code, tc.want)
		}
	}
}

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
		State: g.line[i], Step: g.steps[i], Capability: sub.Request.CapabilityText, Policy: gate.DefaultPolicy(), Due: time.Unix(0, 0),
	}
	switch v.State {
	case graduation.Accepted:
		v.Outcome = &graduation.Outcome{Endpoint: "https://dev.example/v/x"}
	case graduation.Refused:
		v.Refusal = &graduation.Refusal{Kind: problem.GraduationRate.String(), Detail: "too many", Step: v.Step}
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
		"accepted at the second look": {[]graduation.Phase{graduation.Open, graduation.Accepted}, []gate.StepName{gate.Collusion, gate.Commit}, "1m",
			0, "kid has graduated, attempt 1", "collusion ..."},
		"refused": {[]graduation.Phase{graduation.Refused}, []gate.StepName{gate.RateLimit}, "1m",
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
			if err != nil {
				t.Fatal(err)
			}
			defer host.Close()
			g.handler = host.Admin()
			rec := cloudtest.Dev()
			rec.URL, rec.AdminURL, rec.GraduateURL = "https://dev.example", web.URL, web.URL
			if err := (stage.Records{Dir: filepath.Join(s.dataHome, "stages")}).Write(rec); err != nil {
				t.Fatal(err)
			}
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
