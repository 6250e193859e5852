package billing

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// A key can create only keys that do not have more rights than itself. A nil key is the operator. A
// key with a cap cannot create a key that spends, because each new key would have its own cap. A
// link spends without the limits of the key that created it, so only a key without limits can link
// callers. A live key with the scope manage can revoke any key, because a leaked key must be
// revoked quickly.

func (k *Key) checkCanMake(o *KeyOptions) error {
	if k == nil {
		return nil
	}
	excessError := func(field, want, got string) error {
		return &problem.Error{Kind: problem.Forbidden, Field: field, Want: want + ", because a key cannot create a key with more rights than its own", Got: got}
	}
	for _, s := range o.Scopes {
		switch {
		case s == ScopeVacants:
			return problem.New(problem.Forbidden, "scopes: only the operator creates keys with the scope %s", ScopeVacants)
		case s == ScopeAGP && !k.HasScope(s) && o.Tier == Free: // this tier can search but not book
		case !k.HasScope(s):
			return excessError("scopes", fmt.Sprintf("some of %v", k.Scopes), string(s))
		case k.DailyCap > 0 && (s == ScopeCall || s == ScopeAGP || s == ScopeAgents):
			return excessError("scopes", "none that spends, because this key has a cap", string(s))
		}
	}
	switch {
	case o.Tier == Pro || o.Tier == Enterprise || o.Quota != 0:
		return problem.New(problem.Forbidden, "tier: only the operator creates keys of tier %s or with a quota; a tenant can create keys of tier free", o.Tier)
	case k.Test && !o.Test:
		return excessError("test", "true", "false")
	case k.DailyCap > 0 && (o.DailyCap == 0 || o.DailyCap > k.DailyCap):
		return excessError("cap", fmt.Sprintf("1 to %d micro-dollars", int64(k.DailyCap)), fmt.Sprint(int64(o.DailyCap)))
	case k.MaxPrice > 0 && (o.MaxPrice == 0 || o.MaxPrice > k.MaxPrice):
		return excessError("most", fmt.Sprintf("1 to %d micro-dollars", int64(k.MaxPrice)), fmt.Sprint(int64(o.MaxPrice)))
	case !k.Expires.IsZero() && (o.Expires.IsZero() || o.Expires.After(k.Expires)):
		got := "none"
		if !o.Expires.IsZero() {
			got = o.Expires.Format(time.RFC3339)
		}
		return excessError("expires", "a time until "+k.Expires.Format(time.RFC3339), got)
	}
	if len(k.AgentIDs) > 0 && slices.Contains(o.Scopes, ScopeAGP) {
		hasOtherAgent := slices.ContainsFunc(o.AgentIDs, func(a string) bool { return !slices.Contains(k.AgentIDs, a) })
		if len(o.AgentIDs) == 0 || hasOtherAgent {
			return excessError("agent_ids", fmt.Sprintf("some of %q", k.AgentIDs), fmt.Sprintf("%q", o.AgentIDs))
		}
	}
	return nil
}

// CanSee hides live keys from test keys. A nil k is the operator, who sees all keys.
func (k *Key) CanSee(other *Key) bool { return k == nil || !k.Test || other.Test }

func (k *Key) checkCanEnd(m *Maker) error {
	if k == nil || k.HasScope(ScopeManage) || m.descendsFrom(k.ID) {
		return nil
	}
	return problem.New(problem.Forbidden, "the key %s… can end only keys and links that it created: expected a key with the scope %s", k.Prefix, ScopeManage)
}

func (k *Key) CanLink() bool { return k.checkCanLink() == nil }

func (k *Key) checkCanLink() error {
	const textFormat = "a link spends the account's balance without a key: expected a key %s, got one %s"
	switch {
	case k == nil:
		return nil
	case k.subject != nil:
		return problem.New(problem.Forbidden, "a token cannot create links: expected a key of the account, got %s", k.Prefix)
	case k.Test:
		return problem.New(problem.TestKeyNotAllowed, "a test key cannot create links: expected a live key, got %s…", k.Prefix)
	case !k.HasScope(ScopeCall):
		return problem.New(problem.ScopeRequired, textFormat, "with the scope call", fmt.Sprintf("with %v", k.Scopes))
	case k.DailyCap > 0:
		return problem.New(problem.Forbidden, textFormat, "without a cap", "with a cap of "+k.DailyCap.String()+" a day")
	case k.MaxPrice > 0:
		return problem.New(problem.Forbidden, textFormat, "without a limit per call", "with a limit of "+k.MaxPrice.String()+" a call")
	case !k.Expires.IsZero():
		return problem.New(problem.Forbidden, textFormat, "without an end", "that ends at "+k.Expires.Format(time.RFC3339))
	}
	return nil
}

// checkStillValid returns an error if k was revoked since its request was authenticated. The change
// by k and the revocation both write the account, so the later commit detects the earlier one.
func (b *Billing) checkStillValid(ctx context.Context, tx *store.Tx, a *Account, k *Key) error {
	if k == nil {
		return nil
	}
	if err := a.checkNotEnding(k); err != nil {
		return err
	}
	current, _, err := KeyDocs.Require(ctx, tx, KeyDocs.Key(k.Account, k.ID))
	if err != nil {
		return err
	}
	return b.checkUsable(&current.Key)
}
