package kit

import (
	"net/url"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestTheKeyGoesToNoOtherMachineInClear(t *testing.T) {
	for handler, want := range map[string]problem.Kind{
		"https://example.org": problem.Internal, "http://127.0.0.1:8080": problem.Internal, "http://a.localhost:4566": problem.Internal,
		"http://example.org": problem.Usage, "http://192.0.2.1": problem.Usage, "http://localhost.example.org": problem.Usage, "": problem.NotFound,
	} {
		e := &RemoteHost{Stage: "dev", Record: stage.Record{OperatorKey: "vop_secret"}}
		_, key, err := e.operatorAccess(handler)
		if want == problem.Internal && (err != nil || string(key) != "vop_secret") || want != problem.Internal && !problem.Is(err, want) {
			t.Errorf("keyed(%q) = %v, want %v", handler, err, want)
		}
		if err != nil && (key != "" || strings.Contains(err.Error(), "secret")) {
			t.Errorf("keyed(%q) gives the key away: %v", handler, err)
		}
	}
	e := &RemoteHost{Record: stage.Record{OperatorKey: "vop_record"}, envKey: "vop_given"}
	if _, key, err := e.operatorAccess("https://example.org"); string(key) != "vop_given" || err != nil {
		t.Errorf("keyed() takes another key than the environment's, %v", err)
	}
	if _, _, err := (&RemoteHost{}).operatorAccess("https://example.org"); !problem.Is(err, problem.Unauthorized) {
		t.Errorf("keyed() without a key = %v, want Unauthorized", err)
	}
	// Otherwise a person would set a key only to learn that it may not be used.
	if _, _, err := (&RemoteHost{}).operatorAccess("http://example.org"); !problem.Is(err, problem.Usage) {
		t.Errorf("keyed() of a handler in clear without a key = %v, want Usage", err)
	}
}

func FuzzHostURL(f *testing.F) {
	for _, s := range []string{"https://example.org/", "http://127.0.0.1:8080/base", "aws", "http://u:p@h", "http://h?x", "http://h#f", "//h", "http:///x", "http://[::1]:80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseHostURL(s)
		if err != nil {
			if !problem.Is(err, problem.Usage) {
				t.Errorf("hostURL(%q) = %v, want Usage", s, err)
			}
			return
		}
		u, err := url.Parse(got)
		if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(got, "/") {
			t.Errorf("hostURL(%q) = %q, want a base URL", s, got)
		}
		if again, err := parseHostURL(got); again != got || err != nil {
			t.Errorf("hostURL(hostURL(%q)) = %q, %v, want %q", s, again, err, got)
		}
	})
}

func FuzzKeyOf(f *testing.F) {
	f.Add("vop_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n")
	f.Add("a b")
	f.Add("x\r\nHost: y")
	f.Fuzz(func(t *testing.T, s string) {
		key, err := ParseOperatorKey(s)
		if err == nil && strings.ContainsAny(string(key), " \r\n\t\x00") {
			t.Errorf("keyOf(%q) = a key that would end its header", s)
		}
		if err != nil && len(s) > 4 && strings.Contains(err.Error(), s) {
			t.Errorf("keyOf(%q) = %v, which shows it", s, err)
		}
	})
}
