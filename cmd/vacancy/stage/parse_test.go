package stage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzParse(f *testing.F) {
	b, err := Record{Stage: "dev", URL: "https://x", OperatorKey: "vop_x", Edge: true, Context: map[string]string{"a": "b"}}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"format":"vacancy-stage/4","stage":"dev"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := parseRecord(b)
		if err != nil {
			return
		}
		if b, err = rec.encode(); err != nil {
			t.Fatalf("encode() of what was read = %v", err)
		}
		if len(rec.Context) == 0 {
			rec.Context = nil // an empty context is not written
		}
		again, err := parseRecord(b)
		if diff := cmp.Diff(rec, again); diff != "" || err != nil {
			t.Errorf("parse() of what was encoded = %v (-want +got):\n%s", err, diff)
		}
	})
}
