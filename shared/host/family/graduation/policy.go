package graduation

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/tenant"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

const (
	hostPartition = "host"
	policySort    = "gate"
)

// PolicyKey is the key of a tenant's policy; "" is the host's.
func PolicyKey(tenant string) store.Key {
	if tenant == "" {
		return store.Key{Partition: hostPartition, Sort: policySort}
	}
	return store.Key{Partition: hostPartition, Sort: policySort + "#" + tenant}
}

// Sources of a policy.
const (
	FromTenant  = "tenant"
	FromHost    = "host"
	FromDefault = "default"
)

// Policy returns the policy for attempts of tenant's children and its source:
// the tenant's own, the host's, or the default.
func (s *Service) Policy(ctx context.Context, tenant string) (p gate.Policy, from string, err error) {
	for _, at := range []struct{ tenant, from string }{{tenant, FromTenant}, {"", FromHost}} {
		if at.tenant == "" && at.from == FromTenant {
			continue
		}
		d, err := s.Store.Doc(ctx, PolicyKey(at.tenant))
		if err != nil {
			return p, "", fault(err)
		}
		if d.Version > 0 {
			p, err = DecodePolicy(d)
			return p, at.from, err
		}
	}
	return gate.DefaultPolicy(), FromDefault, nil
}

// SetPolicy stores the policy of a tenant, or of the host for "". Attempts that
// have begun keep the policy of their beginning.
func (s *Service) SetPolicy(ctx context.Context, whose string, p gate.Policy) error {
	if err := tenant.Check(whose); err != nil {
		return err
	}
	if err := p.Check(); err != nil {
		return err
	}
	policy, err := encode(p)
	if err != nil {
		return err
	}
	data, err := encode(storedPolicy{format, policy})
	if err != nil {
		return err
	}
	return fault(s.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Doc(ctx, PolicyKey(whose))
		tx.Put(store.Doc{Key: PolicyKey(whose), Data: data})
		return err
	}))
}

type storedPolicy struct {
	Format int             `json:"format"`
	Policy json.RawMessage `json:"policy"`
}

// DecodePolicy reads a policy. The error is of kind Damaged if it is
// unreadable.
func DecodePolicy(d store.Doc) (gate.Policy, error) {
	var w storedPolicy
	var p gate.Policy
	err := json.Unmarshal(d.Data, &w)
	if err == nil {
		err = checkFormat(w.Format)
	}
	if err == nil {
		p, err = gate.ParsePolicy(w.Policy)
	}
	if err != nil {
		return gate.Policy{}, problem.Wrap(problem.Damaged, err, "the policy of the gate (%s) is not readable: %s", d.Key, problem.Of(err).Text())
	}
	return p, nil
}

// Warnings returns warnings for an operator at start: for whom the collusion
// check was switched off by name.
func (s *Service) Warnings(ctx context.Context) ([]string, error) {
	var said []string
	r := store.Range{Partition: hostPartition, First: policySort, Last: policySort + "$"} // '$' follows '#'
	for cursor, more := "", true; more; more = cursor != "" {
		docs, next, err := s.Store.Docs(ctx, r, store.MaxPage, cursor)
		if err != nil {
			return said, fault(err)
		}
		for _, d := range docs {
			p, err := DecodePolicy(d)
			if err != nil {
				return said, err
			}
			if p.Detector != gate.ByZeros {
				continue
			}
			whose := "of this host"
			if tenant, ok := strings.CutPrefix(d.Key.Sort, policySort+"#"); ok {
				whose = "of tenant " + tenant
			}
			said = append(said, "the gate "+whose+" checks for no collusion: its detector is zeros")
		}
		cursor = next
	}
	return said, nil
}
