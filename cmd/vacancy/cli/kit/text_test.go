package kit

import (
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/money"
)

func TestMembersHaveALineForEachValue(t *testing.T) {
	var b strings.Builder
	PrintFields(&b, "id", "a\x1bb", "cap", FormatIf(false, "%d a day", 5), "line", FormatIf(true, "%d a day", 5), "held", money.Amount(0), "audience", []string{"x\n", "y"}, "scopes", []string(nil), "state", PaintedText(Good+"on"+resetShade))
	want := "  id          a\\u001bb\n  line        5 a day\n  held        $0\n  audience    x\\u000a\n  audience    y\n  state       \x1b[32mon\x1b[0m\n"
	if d := gocmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

func TestColumnsAreAsWideAsTheirWidestCell(t *testing.T) {
	got := FormatColumns(
		[]any{"name", "state", "calls", "note"},
		[]any{"änn", PaintedText(Good + "on" + resetShade), 7, "a\x1bb"},
		[]any{"bo", PaintedText("asleep"), uint64(1234), ""},
		[]any{"total", "", money.Amount(1_000_000)},
	)
	want := []string{
		"name   state   calls  note",
		"änn    \x1b[32mon\x1b[0m          7  a\\u001bb",
		"bo     asleep   1234",
		"total             $1",
	}
	if !slices.Equal(got, want) {
		t.Error(gocmp.Diff(want, got))
	}
}

func TestATableWithoutItemsSaysSo(t *testing.T) {
	var b strings.Builder
	row := func(n int) []any { return []any{n, "x"} }
	PrintTable(&b, "no numbers", nil, row)
	PrintTable(&b, "no numbers", []int{5, 10}, row)
	if got, want := b.String(), "no numbers\n 5  x\n10  x\n"; got != want {
		t.Errorf("PrintTable() = %q, want %q", got, want)
	}
}

func TestJoinLeavesOutEmptyTexts(t *testing.T) {
	if got, want := JoinNonEmpty(", ", "", "a", "", "b"), "a, b"; got != want {
		t.Errorf("JoinNonEmpty() = %q, want %q", got, want)
	}
}
