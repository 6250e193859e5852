// Package tenant checks the names of tenants.
package tenant

import (
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

const MaxNameBytes = 128

const allowedCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

// CheckNew also refuses names that look like flags.
func CheckNew(name string) error {
	if strings.HasPrefix(name, "-") {
		return problem.Invalid("tenant", "a name that does not begin with -, for example acme", fmt.Sprintf("%.80q", name))
	}
	return Check(name)
}

// Check accepts the empty name.
func Check(name string) error {
	if len(name) > MaxNameBytes || strings.Trim(name, allowedCharacters) != "" {
		return problem.Invalid("tenant", fmt.Sprintf("at most %d of A-Z a-z 0-9 . _ -", MaxNameBytes), fmt.Sprintf("%.80q", name))
	}
	return nil
}
