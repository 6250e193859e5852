//go:build unix

package lambda

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/tests/awshome"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
)

// A line is paid for by the byte, and strangers choose how many are written:
// by asking for odd paths, and by asking so often that the tables' ceilings
// hold. The worst day counts on the longest that comes of it.
func TestNoLineThatAStrangerCausesIsLongerThanTheWorstDaySays(t *testing.T) {
	home := awshome.New(t)
	id := home.Create(t, "besieged", nil)
	proxy := faultproxy.Start(t, home.Endpoint)
	f := Start(t, bootstrap(t, "message"), Options{Env: home.Env(proxy.URL)})
	post := func() []byte {
		c := caller.New(t, id) // somebody else each time: nothing is remembered of them
		return NewEvent(caller.SendPath, caller.Body(c.Call("hello", time.Now()))).Encode()
	}
	get := func(path string) []byte { return NewEvent(path, nil).Encode() }
	ask := func(event []byte) {
		t.Helper()
		if _, err := f.Send(t.Context(), event); err != nil {
			t.Fatal(err)
		}
	}
	ask(post())
	for _, fault := range []faultproxy.Fault{faultproxy.Throttle, faultproxy.Exceed} {
		for _, operation := range []string{"", "GetItem", "Query", "PutItem"} {
			proxy.Set(faultproxy.Rule{Operation: operation, Fault: fault})
			ask(post())
			ask(get("/v/" + id.String() + "/card"))
			ask(get("/card"))
		}
	}
	for _, odd := range []string{"x", "\x01", "\"", "\\", "\u00e9", "\u2028", "\xff", "%01"} {
		ask(get("/" + strings.Repeat(odd, 300)))
	}
	// Lambda's ids of requests are UUIDs, those here request-1 and so on.
	const longer = len("8b6c3f0e-52d1-4d0b-9f6a-1f3c5d7e9a2b") - len("request-1")
	failed, longest, most := 0, 0, int(cost.DefaultBounds().LineBytes)
	for line := range bytes.Lines([]byte(f.Log())) {
		if json.Valid(line) && bytes.Contains(line, []byte(`"status":503`)) {
			failed++
		}
		n := len(line) + longer
		if longest = max(longest, n); n > most {
			t.Errorf("a line has %d bytes, want at most %d: %s", n, most, line)
		}
	}
	t.Logf("the longest line has %d bytes of %d", longest, most)
	if failed < 8 {
		t.Errorf("%d lines tell of a fault, want those that were made:\n%s", failed, f.Log())
	}
}
