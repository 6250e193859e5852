package billing

import (
	"context"
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/tenant/quota"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Link connects a caller with the account that pays for the caller's signed calls.
type Link struct {
	Caller    identity.ID  `json:"caller"`
	Account   string       `json:"account"`
	DailyCap  money.Amount `json:"cap,omitempty"`
	CreatedAt time.Time    `json:"made"`
	Maker
}

type storedLink struct {
	Claim string `json:"claim"` // last claim that the caller signed
	Link
	Ended bool `json:"ended,omitempty"`
}

func linkKey(caller identity.ID) store.Key {
	return LinkDocs.Key(caller.String())
}

// Link links a caller to the account in the caller's claim. The claim must be later than the
// caller's last claim. If another account pays for the caller, the error is Conflict.
func (b *Billing) Link(ctx context.Context, account, claimText string) (l Link, err error) {
	return b.LinkBy(ctx, nil, account, claimText)
}

func (b *Billing) LinkBy(ctx context.Context, actor *Key, account, claimText string) (l Link, err error) {
	if err := actor.checkCanLink(); err != nil {
		return l, err
	}
	c, err := b.verifyClaim(ctx, claimText)
	if err != nil {
		return l, err
	}
	if c.Account != account {
		return l, problem.Invalid("claim", "one for the account of the key", "one for another account")
	}
	if err := checkAmount("cap", money.Amount(c.DailyCap)); err != nil {
		return l, err
	}
	l = Link{Caller: c.Vacant, Account: account, DailyCap: money.Amount(c.DailyCap), CreatedAt: b.currentSecond(), Maker: makerOf(actor)}
	_, err = b.changeAccount(ctx, account, func(ctx context.Context, tx *store.Tx, a *Account) (Change, error) {
		if err := b.checkStillValid(ctx, tx, a, actor); err != nil {
			return Change{}, err
		}
		s, err := b.loadLinkForClaim(ctx, tx, &c, claimText)
		if err != nil {
			return Change{}, err
		}
		if s.Account != "" && !s.Ended && s.Account != account {
			return Change{}, problem.New(problem.Conflict, "another account pays for %s; end that link first", c.Vacant.Short())
		}
		if s.Claim == claimText {
			l = s.Link
			return Change{}, nil
		}
		listedDoc, err := tx.Doc(ctx, LinkedDocs.Key(account, c.Vacant.String()))
		if err != nil {
			return Change{}, err
		}
		if listedDoc.Version == 0 {
			// The commit writes the account, so it conflicts with a concurrent new link.
			links, err := b.Links(ctx, account)
			if err == nil {
				err = b.Quotas.Check(a.Tenant, quota.Links, int64(len(links)+1))
			}
			if err != nil {
				return Change{}, err
			}
		}
		LinkDocs.Put(tx, store.Doc{Key: linkKey(c.Vacant)}, storedLink{Claim: claimText, Link: l})
		LinkedDocs.Put(tx, store.Doc{Key: listedDoc.Key}, storedLink{Claim: claimText, Link: l})
		return Change{Kind: Linked, Caller: c.Vacant.String(), Claim: claimText, NewLimit: l.DailyCap, Maker: l.MadeBy}, nil
	})
	b.linkCache.invalidate(c.Vacant)
	return l, err
}

func (b *Billing) Unlink(ctx context.Context, actor *Key, account string, caller identity.ID) error {
	return b.unlinkCaller(ctx, actor, account, caller, "")
}

// UnlinkByClaim ends the link of the caller who signed the claim, which must not name an account.
func (b *Billing) UnlinkByClaim(ctx context.Context, claimText string) error {
	c, err := b.verifyClaim(ctx, claimText)
	if err != nil {
		return err
	}
	if c.Account != "" {
		return problem.Invalid("claim", "one that names no account", "one for an account")
	}
	s, d, err := LinkDocs.Get(ctx, b.Store, linkKey(c.Vacant))
	if err != nil {
		return store.AsProblem(err)
	}
	if d.Version == 0 {
		return problem.New(problem.NotFound, "%s has no link", c.Vacant.Short())
	}
	return b.unlinkCaller(ctx, nil, s.Account, c.Vacant, claimText)
}

func IsUnlinkClaim(claimText string) bool {
	c, err := claim.Parse(claimText)
	return err == nil && c.Account == ""
}

func (b *Billing) unlinkCaller(ctx context.Context, actor *Key, account string, caller identity.ID, claimText string) error {
	_, err := b.changeAccount(ctx, account, func(ctx context.Context, tx *store.Tx, _ *Account) (Change, error) {
		s, _, err := LinkDocs.Get(ctx, tx, linkKey(caller))
		if err == nil && claimText != "" {
			var c claim.PaymentClaim
			if c, err = claim.Parse(claimText); err == nil {
				s, err = b.loadLinkForClaim(ctx, tx, &c, claimText)
			}
		}
		switch {
		case err != nil:
			return Change{}, err
		case s.Account != account || s.Ended && s.Claim != claimText:
			return Change{}, problem.New(problem.NotFound, "no such link")
		case s.Ended:
			return Change{}, nil
		}
		if err := actor.checkCanEnd(&s.Maker); err != nil {
			return Change{}, err
		}
		if claimText != "" {
			s.Claim = claimText
		}
		if err := endLink(ctx, tx, s); err != nil {
			return Change{}, err
		}
		return Change{Kind: Unlinked, Caller: caller.String(), Claim: claimText}, nil
	})
	b.linkCache.invalidate(caller)
	return err
}

func endLink(ctx context.Context, tx *store.Tx, s storedLink) error {
	listedDoc, err := tx.Doc(ctx, LinkedDocs.Key(s.Account, s.Caller.String()))
	if err != nil {
		return err
	}
	tx.Delete(listedDoc.Key)
	s.Ended = true
	LinkDocs.Put(tx, store.Doc{Key: linkKey(s.Caller)}, s)
	return nil
}

func (b *Billing) verifyClaim(ctx context.Context, claimText string) (claim.PaymentClaim, error) {
	c, err := claim.Parse(claimText)
	if err != nil {
		return c, err
	}
	self, err := b.Self(ctx)
	if err != nil {
		return c, err
	}
	return c, c.Verify(self, b.Now())
}

// loadLinkForClaim rejects a claim that is not later than the caller's last claim, because the
// claim may be replayed.
func (b *Billing) loadLinkForClaim(ctx context.Context, tx *store.Tx, c *claim.PaymentClaim, claimText string) (s storedLink, err error) {
	if s, _, err = LinkDocs.Get(ctx, tx, linkKey(c.Vacant)); err != nil || s.Claim == "" || s.Claim == claimText && !(s.Ended && c.Account != "") {
		return s, err
	}
	last, err := claim.Parse(s.Claim)
	if err != nil {
		return s, problem.Wrap(problem.Damaged, err, "the link of %s has no claim", c.Vacant.Short())
	}
	if !c.Time.After(last.Time) {
		return s, problem.New(problem.Replay, "the claim was signed at %s, which is not later than the last claim of %s", canon.FormatTime(c.Time), c.Vacant.Short())
	}
	return s, nil
}

func (b *Billing) Links(ctx context.Context, account string) (links []Link, err error) {
	for entry, err := range LinkedDocs.Each(ctx, b.Store, LinkedDocs.Range(account)) {
		if err != nil {
			return nil, store.AsProblem(err)
		}
		links = append(links, entry.Link)
	}
	return links, nil
}

// recentLink returns a link that may be a second old, or the zero Link.
func (b *Billing) recentLink(ctx context.Context, caller identity.ID) (Link, error) {
	return b.linkCache.getOrRead(caller, b.Now(), func() (Link, error) {
		s, _, err := LinkDocs.Get(ctx, b.Store, linkKey(caller))
		if s.Ended {
			return Link{}, err
		}
		return s.Link, err
	})
}

func (l Link) String() string {
	return fmt.Sprintf("%s pays for %s", l.Account[:min(12, len(l.Account))], l.Caller.Short())
}
