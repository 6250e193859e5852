package readproof

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var (
	now = time.Unix(1_700_000_000, 999)
	req = Request{Authority: "Example.com:8080", Method: "GET", Target: "/v1/capability_card/ab?x=1"}
)

func keyOf(t testing.TB, n byte) *identity.Key {
	t.Helper()
	key, err := identity.KeyFromSeed(bytes.Repeat([]byte{n}, identity.Size))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, r Request) string {
	t.Helper()
	value, err := Sign(t.Context(), keyOf(t, 1), r, now)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestAProofFitsTheRequestItWasMadeForAndNoOther(t *testing.T) {
	p, err := Parse(sign(t, req))
	if err != nil || p.ID != keyOf(t, 1).ID() {
		t.Fatalf("Parse() = %v, %v", p, err)
	}
	tests := map[string]struct {
		change func(*Request)
		at     time.Time
		want   problem.Kind
		ok     bool
	}{
		"the same":                  {at: now, ok: true},
		"the authority in any case": {change: func(r *Request) { r.Authority = "EXAMPLE.com:8080" }, at: now, ok: true},
		"at the end of the skew":    {at: now.Truncate(time.Second).Add(MaxSkew), ok: true},
		"at its beginning":          {at: now.Truncate(time.Second).Add(-MaxSkew), ok: true},
		"later":                     {at: now.Add(MaxSkew + time.Second), want: problem.ClockSkew},
		"earlier":                   {at: now.Add(-MaxSkew - time.Second), want: problem.ClockSkew},
		"another host":              {change: func(r *Request) { r.Authority = "example.org:8080" }, at: now, want: problem.BadSignature},
		"another port":              {change: func(r *Request) { r.Authority = "example.com" }, at: now, want: problem.BadSignature},
		"another method":            {change: func(r *Request) { r.Method = "POST" }, at: now, want: problem.BadSignature},
		"another path":              {change: func(r *Request) { r.Target = "/v1/capability_card/ac?x=1" }, at: now, want: problem.BadSignature},
		"another query":             {change: func(r *Request) { r.Target = "/v1/capability_card/ab?x=2" }, at: now, want: problem.BadSignature},
		"a separator moved": {change: func(r *Request) {
			r.Authority, r.Method = r.Authority+"\x1fGET", strings.TrimPrefix(r.Target, "/")
		}, at: now, want: problem.BadSignature},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := req
			if tt.change != nil {
				tt.change(&r)
			}
			if err := p.Verify(r, tt.at); (err == nil) != tt.ok || err != nil && !problem.Is(err, tt.want) {
				t.Errorf("Verify() = %v, want ok %t, kind %v", err, tt.ok, tt.want)
			}
		})
	}
}

func TestAProofUnderAnotherKeyDoesNotVerify(t *testing.T) {
	p, _ := Parse(sign(t, req))
	p.ID = keyOf(t, 2).ID()
	if err := p.Verify(req, now); !problem.Is(err, problem.BadSignature) {
		t.Errorf("Verify(another's) = %v, want bad_signature", err)
	}
	p.ID = identity.ID{1} // the identity key, under which one signature fits every message
	if err := p.Verify(req, now); !problem.Is(err, problem.BadSignature) {
		t.Errorf("Verify(a weak key) = %v, want bad_signature", err)
	}
}

func TestAHeaderHasOneForm(t *testing.T) {
	good := sign(t, req)
	id, rest, _ := strings.Cut(good, ";")
	for name, value := range map[string]string{
		"nothing":           "",
		"upper case":        strings.ToUpper(id) + ";" + rest,
		"white space":       " " + good,
		"a leading zero":    strings.Replace(good, "t=", "t=0", 1),
		"a sign":            strings.Replace(good, "t=", "t=+", 1),
		"another order":     id + ";" + strings.Split(rest, ";")[1] + ";" + strings.Split(rest, ";")[0],
		"a part more":       good + ";x=1",
		"cut off":           good[:len(good)-2],
		"longer":            good + "00",
		"no id":             ";" + rest,
		"far too long":      strings.Repeat("a", 1<<20),
		"time out of range": strings.Replace(good, "t=1700000000", "t=99999999999999999999", 1),
	} {
		if _, err := Parse(value); !problem.Is(err, problem.Malformed) {
			t.Errorf("%s: Parse() = %v, want malformed", name, err)
		}
	}
}

func TestAmbiguousRequestIsNotSigned(t *testing.T) {
	if _, err := Sign(t.Context(), keyOf(t, 1), Request{Authority: "a\x1fGET", Method: "GET", Target: "/"}, now); err == nil {
		t.Error("Sign(a separator in the authority) = nil, want a refusal")
	}
}

// Each proof must have exactly one form.
func FuzzParse(f *testing.F) {
	f.Add(sign(f, req))
	f.Add("")
	f.Add("ab;t=1;sig=cd")
	f.Fuzz(func(t *testing.T, value string) {
		p, err := Parse(value)
		if err != nil {
			if !problem.Is(err, problem.Malformed) {
				t.Fatalf("Parse(%q) = %v, want malformed", value, err)
			}
			return
		}
		if p.String() != value {
			t.Fatalf("Parse(%q) has another form: %q", value, p)
		}
		_ = p.Verify(req, now)
	})
}

func TestAProofCoversTheBody(t *testing.T) {
	with := req
	with.Method, with.Body = "POST", []byte(`{"a":1}`)
	p, err := Parse(sign(t, with))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Verify(with, now); err != nil {
		t.Errorf("Verify() = %v", err)
	}
	for _, body := range []string{"", `{"a":2}`} {
		other := with
		other.Body = []byte(body)
		if p.Verify(other, now) == nil {
			t.Errorf("a proof for one body is valid for %q", body)
		}
	}
}
