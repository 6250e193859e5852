package billing

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// A key makes only keys that may do at most what it may. The operator, a nil maker, makes
// any key.
//
// A cap bounds what its key spends in a day. So a capped key makes only keys that cannot
// spend, because each new key would have a cap of its own. A link spends without the limits
// of the key that made it: it is never for tests, never expires, and has a cap of its own. So
// only a key that may call vacants, and has no cap, no bound a call, no end and is not for
// tests, links callers. A link ends with its key (tree.go).
//
// A test key reads and changes nothing that live keys use: Demand.Test admits it to an
// operation, and CanSee hides live keys from it. Every other key with the scope manage
// revokes any key and ends any link: that takes rights and gives none, and a leaked key
// must end soon. A key without manage ends only the links that it made.

// checkMayMake returns an error if the new key would have rights that k lacks. The scopes of o are
// set.
func (k *Key) checkMayMake(o *KeyOptions) error {
	if k == nil {
		return nil
	}
	above := func(field, want, got string) error {
		return &problem.Error{Kind: problem.Forbidden, Field: field, Want: want + ", because a key makes no key that may do more than itself", Got: got}
	}
	for _, s := range o.Scopes {
		switch {
		case s == ScopeVacants:
			return problem.New(problem.Forbidden, "scopes: the operator makes keys with the scope %s", ScopeVacants)
		case s == ScopeAGP && !k.Has(s) && o.Tier == Free: // it searches, and books nothing
		case !k.Has(s):
			return above("scopes", fmt.Sprintf("some of %v", k.Scopes), string(s))
		case k.Cap > 0 && (s == ScopeCall || s == ScopeAGP || s == ScopeAgents):
			return above("scopes", "none that spends, because this key has a cap", string(s))
		}
	}
	switch {
	case o.Tier == Pro || o.Tier == Enterprise || o.Quota != 0:
		return problem.New(problem.Forbidden, "tier: the operator makes keys of tier %s, or with a quota; a tenant makes keys of tier free", o.Tier)
	case k.Test && !o.Test:
		return above("test", "true", "false")
	case k.Cap > 0 && (o.Cap == 0 || o.Cap > k.Cap):
		return above("cap", fmt.Sprintf("1 to %d micro-dollars", int64(k.Cap)), fmt.Sprint(int64(o.Cap)))
	case k.Most > 0 && (o.Most == 0 || o.Most > k.Most):
		return above("most", fmt.Sprintf("1 to %d micro-dollars", int64(k.Most)), fmt.Sprint(int64(o.Most)))
	case !k.Expires.IsZero() && (o.Expires.IsZero() || o.Expires.After(k.Expires)):
		got := "none"
		if !o.Expires.IsZero() {
			got = o.Expires.Format(time.RFC3339)
		}
		return above("expires", "a time until "+k.Expires.Format(time.RFC3339), got)
	}
	if len(k.Agents) > 0 && slices.Contains(o.Scopes, ScopeAGP) {
		outside := slices.ContainsFunc(o.Agents, func(a string) bool { return !slices.Contains(k.Agents, a) })
		if len(o.Agents) == 0 || outside {
			return above("agent_ids", fmt.Sprintf("some of %q", k.Agents), fmt.Sprintf("%q", o.Agents))
		}
	}
	return nil
}

// CanSee reports whether another key of the account exists for the holder of k. A test key
// sees test keys only. The operator, a nil k, sees all keys.
func (k *Key) CanSee(other *Key) bool { return k == nil || !k.Test || other.Test }

// checkMayEnd returns an error unless k, or a key in its tree, made the key or the link, or k manages
// the account.
func (k *Key) checkMayEnd(m *Maker) error {
	if k == nil || k.Has(ScopeManage) || m.descendsFrom(k.ID) {
		return nil
	}
	return problem.New(problem.Forbidden, "the key %s… ends only what it made: expected a key with the scope %s", k.Prefix, ScopeManage)
}

// MayLink reports whether the key may link callers to its account.
func (k *Key) MayLink() bool { return k.checkMayLink() == nil }

// checkMayLink returns an error if a link could spend what the key could not.
func (k *Key) checkMayLink() error {
	const spends = "a link spends the account's balance without a key: expected a key %s, got one %s"
	switch {
	case k == nil:
		return nil
	case k.subject != nil:
		return problem.New(problem.Forbidden, "a token makes no links: expected a key of the account, got %s", k.Prefix)
	case k.Test:
		return problem.New(problem.TestKey, "a test key makes no links: expected a live key, got %s…", k.Prefix)
	case !k.Has(ScopeCall):
		return problem.New(problem.Scope, spends, "with the scope call", fmt.Sprintf("with %v", k.Scopes))
	case k.Cap > 0:
		return problem.New(problem.Forbidden, spends, "without a cap", "with a cap of "+k.Cap.String()+" a day")
	case k.Most > 0:
		return problem.New(problem.Forbidden, spends, "without a bound a call", "with a bound of "+k.Most.String()+" a call")
	case !k.Expires.IsZero():
		return problem.New(problem.Forbidden, spends, "without an end", "that ends at "+k.Expires.Format(time.RFC3339))
	}
	return nil
}

// checkStillValid returns an error if k was revoked or has expired since its request was
// authenticated, or is in a tree that is being ended. Both the change by k and a revocation write the
// account, so one of them sees the other.
func (b *Billing) checkStillValid(ctx context.Context, tx *store.Tx, a *Account, k *Key) error {
	if k == nil {
		return nil
	}
	if err := a.checkMakers(k); err != nil {
		return err
	}
	now, _, err := KeyDocs.Need(ctx, tx, KeyDocs.Key(k.Account, k.ID))
	if err != nil {
		return err
	}
	return b.checkAlive(&now.Key)
}
