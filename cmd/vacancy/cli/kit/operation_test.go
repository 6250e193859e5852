package kit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/front/op"
)

func TestAUsageLineSaysHowManyArgumentsAreTaken(t *testing.T) {
	for use, want := range map[string][2]int{
		"list": {0, 0}, "show VACANT": {1, 1}, "show [TENANT]": {0, 1}, "cap TENANT DOLLARS": {2, 2}, "revoke [TENANT] KEY": {1, 2},
		"search [WORDS...]": {0, -1}, "call TARGET [TEXT...]": {1, -1}, "set NAME < FILE": {1, 1}, "adjust TENANT DOLLARS --note WHY": {2, 2}, "peers TARGET...": {1, -1},
	} {
		if least, most := countArguments(use); [2]int{least, most} != want {
			t.Errorf("argumentsOf(%q) = %d, %d, want %v", use, least, most, want)
		}
	}
}

// numbers is an operation whose pages are two numbers each, up to five.
type numbers struct{ err error }

func (n numbers) Call(_ context.Context, _ op.Client, from int) ([]int, error) {
	if from >= 5 {
		return []int{5}, n.err
	}
	return []int{from, from + 1}, nil
}

// nearby is an API that needs no host. It notes what it was asked for.
type nearby struct {
	accountAPI
	asked *[]string
}

func (n *nearby) WithClient(_ context.Context, _ *App, q Request, f func(op.Client) error) error {
	*n.asked = append(*n.asked, fmt.Sprintf("%s %q of %q, --loud %t", q.Command, q.Args, q.Tenant, q.Changed("loud")))
	return f(nil)
}

// count declares a command that shows numbers from a given one on.
func count(asked *[]string, failure error) Operation[int, []int] {
	var loud bool
	return Operation[int, []int]{
		Use: "count [TENANT] FROM", Op: numbers{failure}, API: &nearby{asked: asked},
		AddFlags: func(fs *pflag.FlagSet) { fs.BoolVar(&loud, "loud", false, "") },
		Request: func(q Request) (n int, err error) {
			_, err = fmt.Sscan(q.Args[0], &n)
			return n, err
		},
		AppendPage: func(in *int, all *[]int, page []int) bool {
			*all, *in = append(*all, page...), *in+2
			return len(page) == 2
		},
		Print:   func(w io.Writer, all []int) { fmt.Fprint(w, all) },
		AddHint: func(q Request, err error) error { return fmt.Errorf("from %s: %w", q.Args[0], err) },
	}
}

func TestACommandIsOneOperation(t *testing.T) {
	for args, want := range map[string]struct{ out, asked, err string }{
		"count 1":             {"[1 2 3 4 5]", `vacancy count ["1"] of "", --loud false`, ""},
		"count acme 3 --loud": {"[3 4 5]", `vacancy count ["3"] of "acme", --loud true`, ""},
		"count x":             {"", "", "expected integer"}, // before a host is asked
		"count":               {"", "", "an argument is missing"},
		"count a b c":         {"", "", "too many arguments"},
	} {
		var asked []string
		var out strings.Builder
		a := &App{Out: &out}
		root := &cobra.Command{Use: "vacancy", SilenceErrors: true, SilenceUsage: true}
		root.AddCommand(count(&asked, nil).Command(a))
		SetArgumentChecks(root)
		root.SetArgs(strings.Fields(args))
		err := root.Execute()
		got := struct{ out, asked, err string }{out.String(), strings.Join(asked, "; "), ""}
		if err != nil {
			got.err = err.Error()
		}
		if got.out != want.out || got.asked != want.asked || !strings.Contains(got.err, want.err) || (got.err == "") != (want.err == "") {
			t.Errorf("vacancy %s: %s", args, gocmp.Diff(fmt.Sprint(want), fmt.Sprint(got)))
		}
	}
}

func TestAnErrorOfAnOperationIsExplained(t *testing.T) {
	var asked []string
	gone := errors.New("gone")
	cmd := count(&asked, gone).Command(&App{Out: io.Discard})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"4"})
	if err := cmd.Execute(); !errors.Is(err, gone) || err.Error() != "from 4: gone" {
		t.Errorf("Execute() = %v, want it explained", err)
	}
}
