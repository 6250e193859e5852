package graduation

import (
	"strings"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// IsChecked says whether a document is one that a check of a host reads: what
// has come of an attempt, the tries or the window of a parent, a policy.
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
