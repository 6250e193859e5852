package money_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/money"
)

func TestMoneyIsReadAndWritten(t *testing.T) {
	for text, want := range map[string]money.Amount{"0": 0, "1": 1_000_000, "0.002": 2000, "2.50": 2_500_000, "0.000001": 1, "999999999.999999": 999_999_999_999_999} {
		got, err := money.Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %d, %v; want %d", text, got, err, want)
		}
		if back, err := money.Parse(strings.TrimPrefix(got.String(), "$")); err != nil || back != got {
			t.Errorf("%s is read as %d, %v", got, back, err)
		}
	}
	for _, text := range []string{"", "-1", "1.", ".5", "1e3", "0.0000001", "1,5", "1234567890", "$1", " 1", "١"} {
		if got, err := money.Parse(text); err == nil {
			t.Errorf("Parse(%q) = %d, want an error", text, got)
		}
	}
	if got := fmt.Sprint(money.Amount(-1500)); got != "-$0.0015" {
		t.Errorf("a debt is written as %s", got)
	}
}
