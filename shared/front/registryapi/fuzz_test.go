package registryapi

import (
	"encoding/json"
	"net/url"
	"os"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// publishes returns the bodies of the recorded sessions.
func publishes(f *testing.F) (bodies [][]byte) {
	b, err := os.ReadFile("testdata/registry_http.json")
	if err != nil {
		f.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Expect struct {
				Steps []struct{ JSON json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		f.Fatal(err)
	}
	for _, s := range file.Cases[0].Expect.Steps {
		if len(s.JSON) > 4 {
			bodies = append(bodies, s.JSON)
		}
	}
	return bodies
}

// shaped reports whether a malformed body may cause an error.
func shaped(err error) bool {
	return problem.Is(err, problem.InvalidMember) || problem.Is(err, problem.TooLarge)
}

// A body is parsed within limits, or refused because of its shape.
func FuzzReadHalo(f *testing.F) {
	for _, b := range publishes(f) {
		f.Add(b)
	}
	f.Add([]byte(`{"listing":{"vacant_id":"x"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		h, _, err := parsePublication(body)
		if err != nil {
			if !shaped(err) {
				t.Fatalf("readHalo() = %v, want a refusal of the shape", err)
			}
			return
		}
		if h.ActorSeq < 1 || h.Time < 0 || h.State == "" || h.Visibility == "" || len(h.DeclaredCapabilities) > 1024 {
			t.Fatalf("readHalo() = %+v, which is out of bounds", h)
		}
	})
}

func FuzzReadRevocation(f *testing.F) {
	f.Add([]byte(`{"vacant_id":"29acbae141bccaf0b22e1a94d34d0bc7361e526d0bfe12c89794bc9322966dd7","reason":"x","event_ts_ms":1,"event_actor_seq":1,"event_idempotency_key":"k","event_signature_hex":"00"}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := parseRevocation(body)
		if err != nil {
			if !shaped(err) {
				t.Fatalf("readRevocation() = %v, want a refusal of the shape", err)
			}
			return
		}
		if v.ActorSeq < 1 || v.Time < 0 {
			t.Fatalf("readRevocation() = %+v, which is out of bounds", v)
		}
	})
}

func FuzzReadWitness(f *testing.F) {
	f.Add([]byte(`{"note":"vacancy/x\n1\n\n"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := parseWitness(body); err != nil && !shaped(err) {
			t.Fatalf("readWitness() = %v, want a refusal of the shape", err)
		}
	})
}

// An accepted number must be within its range.
func FuzzQuery(f *testing.F) {
	f.Add("limit=5&min_reputation=0.5&direction=ancestors&include_local=true")
	f.Add("limit=-1&min_reputation=NaN")
	f.Fuzz(func(t *testing.T, raw string) {
		values, err := url.ParseQuery(raw)
		if err != nil {
			return
		}
		q := query{values: values, ranges: map[string]op.Range{
			"limit": {Min: 1, Max: 100, Default: int64(20)}, "min_reputation": {Max: 1}, "direction": {Words: []string{"a", "ancestors"}, Default: "a"},
		}}
		limit, least := q.number("limit"), q.fraction("min_reputation")
		word := q.word("direction")
		q.boolean("include_local")
		if q.err != nil {
			if !shaped(q.err) {
				t.Fatalf("query = %v, want a refusal of the shape", q.err)
			}
			return
		}
		if limit < 1 || limit > 100 || !(least >= 0 && least <= 1) || word != "a" && word != "ancestors" {
			t.Fatalf("query %q = %d, %g, %s, out of bounds", raw, limit, least, word)
		}
	})
}
