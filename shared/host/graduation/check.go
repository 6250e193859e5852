package graduation

import (
	"strings"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// IsChecked says whether a document is one that a check of a home reads: what
// has come of an attempt, the window of a parent, a policy.
func IsChecked(k store.Key) bool {
	if tenant, ok := strings.CutPrefix(k.Sort, policySort+"#"); k == PolicyKey("") || ok && k == PolicyKey(tenant) {
		return true
	}
	text, ok := strings.CutPrefix(k.Partition, KindAttempts+"#")
	if !ok {
		return false
	}
	id, err := identity.ParseID(text)
	return err == nil && WindowKey(id).Partition == k.Partition
}
