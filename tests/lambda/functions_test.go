//go:build unix

package lambda

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/caller"
)

// threes is a source of bytes of 3, for the samples' operator key.
type threes struct{}

func (threes) Read(b []byte) (int, error) {
	copy(b, bytes.Repeat([]byte{3}, len(b)))
	return len(b), nil
}

// operated is a host in KMS with the samples' operator key.
func operated(t *testing.T) *awshost.Host {
	t.Helper()
	host := awshost.NewInKMS(t)
	if got := host.OperatorKey(t, threes{}); got != sampleOperator {
		t.Fatalf("OperatorKey() = %s, want that of the samples, %s", got, sampleOperator)
	}
	return host
}

// replay gives f sample events, in order, and compares its answers.
func replay(t *testing.T, f *Function, steps []step) {
	t.Helper()
	for _, s := range steps {
		r, err := f.Send(t.Context(), sample(t, s.file))
		if err != nil {
			t.Fatalf("%s: Send() = %v\n%s", s.file, err, f.Log())
		}
		if r.Status != s.status || !strings.Contains(r.Body, s.says) {
			t.Errorf("%s: answer = %d %s, want %d with %q", s.file, r.Status, r.Body, s.status, s.says)
		}
	}
}

type step struct {
	file   string
	status int
	says   string
}

func TestAccountAnswersTheSampleEvents(t *testing.T) {
	f := run(t, "admin", operated(t))
	replay(t, f, []step{
		{"admin-no-key.json", 401, `"code":"unauthorized"`},
		{"admin-wrong-key.json", 401, `"code":"unauthorized"`},
		{"admin-browser.json", 403, `"code":"forbidden"`},
		{"admin-list.json", 200, `"vacants":[]`},
		{"admin-create.json", 201, `"name":"sample"`},
		{"admin-create.json", 409, `"code":"conflict"`},
		{"admin-show.json", 200, `"state":"LOCAL"`},
		{"admin-pause.json", 200, `"state":"HIBERNATING"`},
		{"admin-list.json", 200, `"state":"HIBERNATING"`},
		{"admin-host.json", 200, `"key":"kms","url":"` + awshost.URL + `"`},
		{"admin-url.json", 200, `"cards_signed":0`},
	})
	if strings.Contains(strings.Join([]string{f.Log()}, ""), sampleOperator) {
		t.Errorf("the operator's key is in the log:\n%s", f.Log())
	}
	all := lines(t, f)
	if len(all) != 11 {
		t.Errorf("%d lines for 11 requests:\n%s", len(all), f.Log())
	}
	for _, m := range all {
		if m["_aws"] == nil {
			t.Errorf("a line without metrics: %v", m)
		}
	}
}

func TestExportAnswersTheSampleEventsAndWritesNothing(t *testing.T) {
	host := operated(t)
	host.Create(t, "audited", nil)
	f := run(t, "export", host)
	replay(t, f, []step{
		{"export-no-key.json", 401, `"code":"unauthorized"`},
		{"export-about.json", 200, ""},
		{"export-streams.json", 200, ""},
		{"export-write.json", 404, `"code":"not_found"`},
	})
	for _, m := range lines(t, f) {
		if m["wcu"] != nil || m["_aws"] == nil {
			t.Errorf("a line that tells of a write, or without metrics: %v", m)
		}
	}
}

func TestAnAddressThatAsksTooOftenIsHeldBackAndOthersAreNot(t *testing.T) {
	host := awshost.New(t)
	id := host.Create(t, "busy", nil)
	f := run(t, "message", host, "VACANCY_RATE=0.01:4", "VACANCY_PAIR_RATE=0.01:2")
	from := func(address string, event Event) Response {
		t.Helper()
		event.RequestContext.HTTP.SourceIP = address
		r, err := f.Send(t.Context(), event.Encode())
		must(t, err)
		return r
	}
	var got []string
	say := func(r Response) { got = append(got, fmt.Sprintf("%d %t", r.Status, r.Headers["Retry-After"] != "")) }
	// Two pairs are opened and the third is one too many; a read opens none,
	// and the fifth request is one too many whatever it is.
	for range 3 {
		c := caller.New(t, id)
		say(from("192.0.2.1", NewEvent(caller.SendPath, caller.Body(c.Call("hi", time.Now())))))
	}
	card := NewEvent("/v/"+id.String()+"/card", nil)
	say(from("192.0.2.1", card))
	card.Headers["x-forwarded-for"] = "203.0.113.9"
	say(from("192.0.2.1", card))
	others := 0 // one may share a bucket
	for i := range 3 {
		if from(fmt.Sprintf("198.51.100.%d", i), card).Status == 200 {
			others++
		}
	}
	want := []string{"200 false", "200 false", "429 true", "200 false", "429 true"}
	if diff := cmp.Diff(want, got); diff != "" || others == 0 {
		t.Errorf("%d others answered; status, Retry-After (-want +got):\n%s", others, diff)
	}
}
