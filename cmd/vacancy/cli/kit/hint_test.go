package kit

import (
	"testing"

	"github.com/spf13/cobra"
)

func TestTypedFlagsAreAddedOnce(t *testing.T) {
	call := &cobra.Command{Use: "call"}
	call.Flags().String("as", "", "")
	call.Flags().String("host", "", "")
	call.Flags().Bool("ask", false, "")
	if err := call.ParseFlags([]string{"--as", "alice", "--host", "http://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"call demo":                " --host http://127.0.0.1:1 --as alice",
		"call demo --ask":          " --host http://127.0.0.1:1 --as alice",
		"call demo --as bob":       " --host http://127.0.0.1:1",
		"call demo --as=bob":       " --host http://127.0.0.1:1",
		"call demo --data DIR":     " --as alice",
		"call http://h/v/demo":     " --as alice",
		"call --host aws --as bob": "",
	} {
		if got := typedFlags(call, call, line); got != want {
			t.Errorf("typedFlags(%q) = %q, want %q", line, got, want)
		}
	}
}
