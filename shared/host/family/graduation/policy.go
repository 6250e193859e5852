package graduation

import (
	"context"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/tenant"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

const (
	PolicyFromTenant  = "tenant"
	PolicyFromHost    = "host"
	PolicyFromDefault = "default"
)

// Policy returns the tenant's policy, otherwise the host's policy, otherwise the default.
func (s *Service) Policy(ctx context.Context, tenant string) (p gate.Policy, from string, err error) {
	for _, source := range []struct{ tenant, from string }{{tenant, PolicyFromTenant}, {"", PolicyFromHost}} {
		if source.tenant == "" && source.from == PolicyFromTenant {
			continue
		}
		custom, d, err := PolicyDocs.Get(ctx, s.Store, PolicyKey(source.tenant))
		if err != nil {
			return p, "", faultError(err)
		}
		if d.Version > 0 {
			return custom.Policy, source.from, nil
		}
	}
	return gate.DefaultPolicy(), PolicyFromDefault, nil
}

func (s *Service) SetPolicy(ctx context.Context, tenantID string, p gate.Policy) error {
	if err := tenant.Check(tenantID); err != nil {
		return err
	}
	if err := p.Check(); err != nil {
		return err
	}
	return faultError(s.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, PolicyKey(tenantID))
		PolicyDocs.Put(tx, store.Doc{Key: d.Key}, storedPolicy{p})
		return err
	}))
}

// Warnings returns a warning for each policy that disables the check of collusion.
func (s *Service) Warnings(ctx context.Context) ([]string, error) {
	var warnings []string
	for d, err := range store.Documents(ctx, s.Store, PolicyDocs.Range()) {
		var p storedPolicy
		if err == nil {
			p, err = PolicyDocs.Parse(d)
		}
		if err != nil {
			return warnings, faultError(err)
		}
		if p.Policy.Detector != gate.DetectorZeros {
			continue
		}
		scope := "of this host"
		if _, tenant, ok := strings.Cut(d.Key.Sort, tenantPrefix); ok {
			scope = "of tenant " + tenant
		}
		warnings = append(warnings, "the gate "+scope+" does not check for collusion: its detector is zeros")
	}
	return warnings, nil
}
