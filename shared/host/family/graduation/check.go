package graduation

import (
	"strings"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// IsChecked reports whether fsck reads a document of this package: a status, an
// attempt window, a window of successes, a policy.
func IsChecked(k store.Key) bool {
	if tenant, ok := strings.CutPrefix(k.Sort, policySort+"#"); k == PolicyKey("") || ok && k == PolicyKey(tenant) {
		return true
	}
	kind, text, _ := strings.Cut(k.Partition, "#")
	id, err := identity.ParseID(text)
	if err != nil || id.String() != text {
		return false
	}
	return kind == KindAttempts || k == AttemptWindowKey(id) || k == WindowKey(id)
}
