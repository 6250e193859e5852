//go:build unix

package lambda

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
)

// The deployed function's own counts. DynamoDB Local is so quick that
// concurrent reads need not overlap, so the proxy holds them for a moment: a
// count must not depend on the machine.
func TestACallCostsTwoUnitsAndThreeTripsColdTwoWarm(t *testing.T) {
	host := awshost.New(t)
	c := caller.New(t, host.Create(t, "counted", nil))
	proxy := faultproxy.Start(t, host.Endpoint)
	held := []faultproxy.Rule{{Operation: "GetItem", Fault: faultproxy.Delay, For: 30 * time.Millisecond}, {Operation: "Query", Fault: faultproxy.Delay, For: 30 * time.Millisecond}}
	proxy.Set(held...)
	call := func(f *Function) {
		t.Helper()
		e := c.Call("counted", time.Now())
		if a := send(t, f, caller.SendPath, e); a.Status != 200 {
			t.Fatalf("call = %v, want 200\n%s", a, f.Log())
		}
		c.Accepted(e)
	}
	// The first call of the day makes the day's text key.
	first := Start(t, bootstrap(t, "message"), Options{Env: host.Env(proxy.URL)})
	call(first)
	first.Kill()

	f := Start(t, bootstrap(t, "message"), Options{Env: host.Env(proxy.URL)})
	must(t, errorOf(f.Ready(t.Context())))
	call(f)
	call(f)
	call(f)
	// Beside its first write a warm call reads whether its keys are revoked.
	warm := []any{"ok", 200., nil, 2., 2., 1., nil, 1., nil, nil}
	want := [][]any{{"ok", 200., true, 3., 2., 5., nil, 1., nil, nil}, warm, warm}
	got := pick(lines(t, f), "send", "verdict", "status", "cold", "trips", "wcu", "rcu", "kms", "calls", "failed", "refused")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdict, status, cold, trips, wcu, rcu, kms, calls, failed, refused (-want +got):\n%s\n%s", diff, f.Log())
	}
}

// With KMS a call makes no additional request to DynamoDB; here the keys are
// software, so the line does not mention KMS.
func TestOneInvocationIsOneLineOfMetrics(t *testing.T) {
	host := awshost.New(t)
	id := host.Create(t, "logged", nil)
	c := caller.New(t, id)
	f := run(t, "message", host)
	e := c.Call("a private word", time.Now())
	send(t, f, caller.SendPath, e)
	send(t, f, caller.SendPath, e)
	for _, event := range [][]byte{
		NewEvent("/v/"+id.String()+"/card", nil).Encode(), NewEvent("/nowhere", nil).Encode(), []byte(`[]`),
		NewEvent("/v1/admin/vacants", []byte(`{}`)).Encode(), NewEvent(caller.SendPath, []byte(`{}`)).Encode(),
	} {
		must(t, errorOf(f.Send(t.Context(), event)))
	}
	all := lines(t, f)
	var got [][]any
	for _, m := range all {
		got = append(got, []any{m["msg"], m["verdict"], m["status"], m["cold"], m["refused"], m["request"]})
	}
	want := [][]any{
		{"send", "ok", 200., true, nil, "request-1"},
		{"send", "resent", 409., nil, nil, "request-2"},
		{"request", "ok", 200., nil, nil, "request-3"},
		{"request", "refused", 404., nil, 1., "request-4"},
		{"request", "refused", 400., nil, 1., "request-5"},
		{"request", "refused", 404., nil, 1., "request-6"},
		{"refused", "malformed", 400., nil, 1., "request-7"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("msg, verdict, status, cold, refused, request (-want +got):\n%s\n%s", diff, f.Log())
	}
	for _, m := range all {
		if m["stage"] != awshost.Stage || m["function"] != "message" || m["trace"] != "1-5bef4de7-ad49b0e87f6ef6c87fc2e700" || m["_aws"] == nil || m["ms"] == nil {
			t.Errorf("the line misses its origin or its metrics: %v", m)
		}
	}
	if strings.Contains(f.Log(), "private") {
		t.Errorf("the text of a message is in the log:\n%s", f.Log())
	}
	for line := range bytes.Lines([]byte(f.Log())) {
		if json.Valid(line) && bytes.Contains(line, []byte(`"verdict":"ok"`)) && !bytes.Contains(line, []byte(`"cold"`)) && len(line) > 470 {
			t.Errorf("the line of a warm call has %d bytes, want at most 470: %s", len(line), line)
		}
	}
}
