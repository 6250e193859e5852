// Package tenant checks the names of tenants.
package tenant

import (
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// MaxName limits a name in bytes.
const MaxName = 128

const allowedCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

// CheckNew checks the name of a tenant that is about to get an account. In addition to Check, it
// refuses names that a command would parse as a flag.
func CheckNew(name string) error {
	if strings.HasPrefix(name, "-") {
		return problem.Invalid("tenant", "a name that does not begin with -, for example acme", fmt.Sprintf("%.80q", name))
	}
	return Check(name)
}

// Check checks the name of a tenant. The empty name is valid and means no tenant. An error names
// the field tenant.
func Check(name string) error {
	if len(name) > MaxName || strings.Trim(name, allowedCharacters) != "" {
		return problem.Invalid("tenant", fmt.Sprintf("at most %d of A-Z a-z 0-9 . _ -", MaxName), fmt.Sprintf("%.80q", name))
	}
	return nil
}
