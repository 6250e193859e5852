package nearest_test

import (
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/nearest"
)

func TestTheNearestNameHasTheFewestChanges(t *testing.T) {
	names := []string{"fox", "scribe", "clerk", "a", "mode", "model"}
	for word, want := range map[string]string{
		"fxo": "fox", "Fox": "fox", "scirbe": "scribe", "scribbler": "", "clrk": "clerk", "clerks": "clerk", "nobody": "", "b": "", "": "", "modle": "model", "mod": "mode", "moda": "mode", "mdox": "",
	} {
		if got := nearest.Name(word, names); got != want {
			t.Errorf("Name(%q) = %q, want %q", word, got, want)
		}
	}
}
