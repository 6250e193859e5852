package problem_test

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestBelowSaysThePathOnce(t *testing.T) {
	for _, tt := range []struct {
		err         *problem.Error
		field, text string
		kind        problem.Kind
	}{
		{problem.Invalid("name", "a text", "7"), "a.b.name", "a.b.name: expected a text, got 7", problem.Malformed},
		{problem.Invalid("body", "an object", "7"), "a.b", "a.b: expected an object, got 7", problem.Malformed},
		{problem.New(problem.Malformed, "it is wrong"), "a.b", "a.b: it is wrong", problem.Malformed},
		{problem.New(problem.NotJSON, "body: not JSON"), "a.b", "a.b: not JSON", problem.Malformed},
		{problem.AtPath("c", problem.New(problem.Malformed, "it is wrong")), "a.b.c", "a.b.c: it is wrong", problem.Malformed},
		{problem.AtPath("c", problem.Invalid("name", "a text", "7")), "a.b.c.name", "a.b.c.name: expected a text, got 7", problem.Malformed},
		{problem.WithPlace(problem.Gone, "c", problem.Invalid("name", "a text", "7")), "a.b.name", "a.b: c: name: expected a text, got 7", problem.Gone},
	} {
		got := problem.AtPath("a.b", tt.err)
		if got.Field != tt.field || got.Text() != tt.text || got.Kind != tt.kind {
			t.Errorf("Below(%q) = %s, %q of %q; want %s, %q of %q", tt.err.Text(), got.Kind, got.Text(), got.Field, tt.kind, tt.text, tt.field)
		}
	}
}
