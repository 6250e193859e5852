//go:build unix

package lambda

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
)

// A log line is paid for by the byte, and strangers choose how many are
// written: by odd paths, and by so many requests that the tables' ceilings are
// reached. The worst day assumes the longest such line.
func TestLogLinesFitTheWorstDay(t *testing.T) {
	host := awshost.New(t)
	id := host.Create(t, "besieged", nil)
	proxy := faultproxy.Start(t, host.Endpoint)
	f := Start(t, bootstrap(t, "message"), Options{Env: host.Env(proxy.URL)})
	post := func() []byte {
		c := caller.New(t, id) // a new caller each time: nothing of it is cached
		return NewEvent(caller.SendPath, caller.Body(c.Call("hello", time.Now()))).Encode()
	}
	get := func(path string) []byte { return NewEvent(path, nil).Encode() }
	ask := func(event []byte) {
		t.Helper()
		must(t, errorOf(f.Send(t.Context(), event)))
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
	if failed := within(t, f); failed < 8 {
		t.Errorf("%d lines tell of a fault, want those that were made:\n%s", failed, f.Log())
	}
}

// within requires every line of f to be at most as long as the worst day
// assumes, and counts those about faults.
func within(t *testing.T, f *Function) (failed int) {
	t.Helper()
	// Lambda's request ids are UUIDs, those here request-1 and so on.
	const longer = len("8b6c3f0e-52d1-4d0b-9f6a-1f3c5d7e9a2b") - len("request-1")
	longest, most := 0, int(cost.DefaultBounds().LineBytes)
	for line := range bytes.Lines([]byte(f.Log())) {
		if json.Valid(line) && (bytes.Contains(line, []byte(`"status":503`)) || bytes.Contains(line, []byte(`"failed":1`))) {
			failed++
		}
		n := len(line) + longer
		if longest = max(longest, n); n > most {
			t.Errorf("a line has %d bytes, want at most %d: %s", n, most, line)
		}
	}
	t.Logf("the longest line has %d bytes of %d", longest, most)
	return failed
}

func TestNoLineOfTheGateIsLonger(t *testing.T) {
	k := newKin(t)
	proxy := faultproxy.Start(t, k.host.Endpoint)
	machine, env := newMachines(t)
	f := Start(t, bootstrap(t, "graduate"), Options{Env: append(k.host.Env(proxy.URL), env...)})
	sound := k.request(t, k.child(t, "reader"), "reads")
	unknown := k.request(t, k.host.Create(t, "nobodys", nil), strings.Repeat("\"", 2000))
	for _, fault := range []faultproxy.Fault{faultproxy.Pass, faultproxy.Throttle, faultproxy.Exceed} {
		proxy.Set()
		if fault != faultproxy.Pass {
			proxy.Set(faultproxy.Rule{Fault: fault})
		}
		machine.say("", fault == faultproxy.Pass)
		for _, odd := range []string{"", "a", "\x01", "\"", "\u2028", "%01"} {
			must(t, errorOf(f.Send(t.Context(), NewEvent("/v1/graduations/"+strings.Repeat(odd, 300), nil).Encode())))
		}
		for _, body := range [][]byte{sound, unknown, []byte(strings.Repeat("[", 1000)), bytes.Repeat([]byte("\"\x01"), 500)} {
			must(t, errorOf(f.Post(t.Context(), "/v1/graduations", body)))
		}
	}
	within(t, f)
}

func TestNoLineOfTheRegistryOrOfSearchIsLonger(t *testing.T) {
	host := awshost.New(t)
	proxy := faultproxy.Start(t, host.Endpoint)
	_, blobs := bucket(t)
	for name, paths := range map[string][]string{
		"registry": {"/v1/capability_card/", "/v1/event_log/", "/v1/event/", "/v1/revocation_list?cursor=", "/v1/checkpoint?size="},
		"search":   {"/v1/search?q=", "/v1/search?tag=", "/v1/search?cursor=", "/v1/search_capability?q="},
	} {
		f := Start(t, bootstrap(t, name), Options{Env: append(host.Env(proxy.URL), blobs...)})
		for _, fault := range []faultproxy.Fault{faultproxy.Pass, faultproxy.Throttle, faultproxy.Exceed} {
			proxy.Set()
			if fault != faultproxy.Pass {
				proxy.Set(faultproxy.Rule{Fault: fault})
			}
			for _, path := range paths {
				for _, odd := range []string{"", "a", "\x01", "\"", "\u2028", "%01"} {
					must(t, errorOf(f.Send(t.Context(), NewEvent(path+strings.Repeat(odd, 300), nil).Encode())))
				}
			}
			halo, err := json.Marshal(sampleHalo(time.Now()))
			must(t, err)
			for _, body := range [][]byte{halo, []byte(strings.Repeat("[", 1000)), bytes.Repeat([]byte("\"\x01"), 500)} {
				must(t, errorOf(f.Post(t.Context(), "/v1/halo", body)))
			}
		}
		within(t, f)
	}
}
