package kit

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestDollarsAreReadExactly(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "1": 1_000_000, "0.002": 2000, "0.000001": 1, "12.5": 12_500_000, "999999999": 999_999_999_000_000, "0.100000": 100_000,
	} {
		if got, err := ParseMicroDollars("--max-price", s); got != want || err != nil {
			t.Errorf("microDollars(%q) = %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", ".", ".5", "5.", "-1", "+1", "1e3", "0.0000001", "1,5", "$1", "1000000000", "NaN", "٣", " 1"} {
		if got, err := ParseMicroDollars("--max-price", s); !problem.Is(err, problem.Usage) {
			t.Errorf("microDollars(%q) = %d, %v, want %v", s, got, err, problem.Usage)
		}
	}
	for micro, want := range map[int64]string{0: "free", 1: "$0.000001", 2000: "$0.002", 1_000_000: "$1", 12_500_000: "$12.5", 10_000_000: "$10"} {
		if got := FormatPrice(micro); got != want {
			t.Errorf("dollars(%d) = %s, want %s", micro, got, want)
		}
	}
}
