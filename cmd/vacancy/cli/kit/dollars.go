package kit

import (
	"fmt"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func ParseMicroDollars(flag, s string) (int64, error) {
	m, err := money.Parse(s)
	if err != nil {
		return 0, &problem.Error{Kind: problem.Usage, Field: flag, Want: "dollars with at most six decimals, like 0.002", Got: fmt.Sprintf("%.40q", s)}
	}
	return int64(m), nil
}

func FormatPrice(micro int64) string {
	if micro == 0 {
		return "free"
	}
	return money.Amount(micro).String()
}
