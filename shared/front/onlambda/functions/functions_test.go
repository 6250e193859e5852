package functions_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

// directories lists the directories of functions/.
func directories(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("..", "..", "..", "..", "functions"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestEveryDirectoryHasARowAndEveryRowADirectory(t *testing.T) {
	if diff := cmp.Diff(directories(t), slices.Sorted(slices.Values(functions.Names()))); diff != "" {
		t.Errorf("rows of the table (-directories +rows):\n%s", diff)
	}
	for _, name := range functions.Names() {
		if f, ok := functions.Find(name); !ok || f.Name != name {
			t.Errorf("Named(%q) = %q, %v", name, f.Name, ok)
		}
	}
	if f, ok := functions.Find("none"); ok {
		t.Errorf("Named(none) = %+v, want nothing", f)
	}
}

func TestEveryRowIsWhole(t *testing.T) {
	for _, f := range functions.All() {
		if f.Description == "" || f.MemoryMB < 128 || f.TimeoutSeconds < 1 || f.TimeoutSeconds > 15*60 {
			t.Errorf("%s lacks a description, memory or time: %+v", f.Name, f)
		}
		if f.StreamsAnswers && !f.URL {
			t.Errorf("%s streams answers and has no URL", f.Name)
		}
		if f.URL && !f.StreamsAnswers && f.TimeoutSeconds >= 30 {
			t.Errorf("%s answers within %d seconds, and CloudFront gives up after 30", f.Name, f.TimeoutSeconds)
		}
		if f.IsGateStep != (f.MinInstances == 0) {
			t.Errorf("%s reserves %d instances; only steps of the gate reserve none", f.Name, f.MinInstances)
		}
		if f.Alarm.Name != "" && (f.Alarm.Description == "" || f.Alarm.MinFailures < 1 || f.Alarm.PeriodMinutes < 1) {
			t.Errorf("the alarm of %s is incomplete: %+v", f.Name, f.Alarm)
		}
		if f.Alarm.CountsMissedRuns && f.EveryMinutes == 0 {
			t.Errorf("the alarm of %s counts missed runs of a schedule that it has not", f.Name)
		}
		if (f.Check.Name == "") != (f.Check.FailureEffect == "") {
			t.Errorf("the check of %s is incomplete: %+v", f.Name, f.Check)
		}
		if f.IsScheduled() && f.TimeoutSeconds > f.EveryMinutes*60 {
			t.Errorf("a run of %s takes up to %d seconds, longer than to the next", f.Name, f.TimeoutSeconds)
		}
		variables := f.Variables()
		slices.Sort(variables)
		if len(slices.Compact(slices.Clone(variables))) != len(variables) {
			t.Errorf("%s has a variable twice: %v", f.Name, variables)
		}
	}
}

// The first pattern that matches counts, so no pattern stands behind one that covers it.
func TestEveryHandlerHasAPath(t *testing.T) {
	reached := map[string]bool{functions.DefaultPath.Function.Name: true}
	var before []string
	for _, p := range functions.Paths() {
		reached[p.Function.Name] = true
		for _, earlier := range before {
			if strings.HasPrefix(p.Pattern, strings.TrimSuffix(earlier, "*")) {
				t.Errorf("%s is never reached: %s comes before it", p.Pattern, earlier)
			}
		}
		before = append(before, p.Pattern)
	}
	for _, f := range functions.All() {
		if f.URL != reached[f.Name] {
			t.Errorf("%s has a URL: %v; a path of the edge: %v", f.Name, f.URL, reached[f.Name])
		}
	}
}

// Functions read each other at the paths that CloudFront leads to them.
func TestAPathLeadsWhereCloudFrontLeadsIt(t *testing.T) {
	for path, want := range map[string]functions.Function{
		"/": functions.Agent, "/v/clerk": functions.Agent, "/v/web": functions.Agent, "/v/v1": functions.Agent, "/v/keys/": functions.Agent, "/web": functions.Agent,
		"/web/": functions.Web, "/web/vacants/card": functions.Web, "/web/vacants/web": functions.Web, "/web/log/1": functions.Web, "/web/assets/00/vacant.js": functions.Web,
		"/web/a2a/message/send": functions.Message, "/v/clerk/a2a/message/send": functions.Message, "/v/web/a2a/chain/reset": functions.Message,
		"/v/clerk/card": functions.Message, "/card": functions.Message, "/v/clerk/.well-known/agent-card.json": functions.Agent,
		"/v1/search": functions.Search, "/v1/search_capability": functions.Search, "/v1/query_capability": functions.Search, "/v1/capability_card/00": functions.Registry,
		"/v1/event_log/00": functions.Registry, "/v1/lineage/00": functions.Registry, "/v1/checkpoint": functions.Registry, "/v1/openapi.json": functions.Registry,
		"/v1/admin/vacants": functions.Admin, "/v1/admin/export/streams": functions.Export, "/v/clerk/v1/chat/completions": functions.Agent, "/v/clerk/v1/responses": functions.Agent, "/v1/responses/resp_1": functions.Agent, "/v1/v1/chat/completions": functions.Agent, "/v1/usage": functions.Gateway,
		"/v1/tasks": functions.Agent, "/v1/tasks/00/cancel": functions.Agent, "/v1/agents/clerk": functions.Agent, "/v1/work/lease": functions.Agent, "/v1/admin/work/lease": functions.Admin, "/v1/admin/tasks": functions.Admin,
	} {
		if got := functions.Route(path).Function; got != want {
			t.Errorf("Route(%s) = %s, want %s", path, got.Name, want.Name)
		}
	}
}
