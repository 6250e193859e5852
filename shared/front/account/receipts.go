package account

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/certificate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/receipt"
)

// Receipts contains the sources from which receipts are built.
type Receipts struct {
	// Settled reads an answered call that had a price. Position 0 means the last charged call of
	// the pair. The bool is false if there is no such call. call.Host.PricedCall implements it.
	Settled func(ctx context.Context, pair call.Pair, position uint64) (call.RequestRow, call.ResponseRow, bool, error)
	// Signer returns the key that signs receipts at a time. It is implemented by signingkey.Keys.
	Signer func(ctx context.Context, at time.Time) (certificate.Signer, error)
	// Owner returns the tenant that owns a vacant, or "" if the operator owns it.
	Owner   func(ctx context.Context, id identity.ID) (string, error)
	Callers caller.Verifier
}

// receiptRoute is the path of a receipt below the operator's or the tenant's prefix.
const receiptRoute = "{caller}/{vacant}/{position}"

// LastPosition requests the receipt of the last answered call of a pair.
const LastPosition = "last"

func noReceipt() error { return problem.New(problem.NotFound, "no such receipt") }

// receipt returns the handler that answers with the receipt of a call. Parties that may not read
// the receipt get NotFound.
func (d *api) receipt(mayRead func(*http.Request, call.Pair, *call.RequestRow) (bool, error)) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err1 := identity.ParseID(r.PathValue("caller"))
		v, err2 := identity.ParseID(r.PathValue("vacant"))
		if err1 != nil || err2 != nil {
			return noReceipt()
		}
		pair := call.Pair{Caller: c, Vacant: v}
		position := uint64(0)
		if s := r.PathValue("position"); s != LastPosition {
			n, err := strconv.ParseUint(s, 10, 63)
			if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
				return noReceipt()
			}
			position = n
		}
		q, a, ok, err := d.receipts.Settled(r.Context(), pair, position)
		if err != nil {
			return err
		}
		allowed, err := mayRead(r, pair, &q)
		if err != nil {
			return err
		}
		if !ok || !allowed {
			return noReceipt()
		}
		p, err := d.PriceVersion(r.Context(), pair.Vacant, q.PriceVersion)
		if err != nil {
			return err
		}
		rcpt := receipt.Receipt{
			Caller: pair.Caller, Vacant: pair.Vacant, Position: int64(q.Position), Request: q.Hash, Reply: a.Hash, Time: canon.FormatTime(a.Time),
			PriceVersion: int64(q.PriceVersion), Price: p.String(), Hold: int64(q.Price), Charge: int64(money.Amount(a.Charge)), Payment: "account", Cut: string(a.Cut),
		}
		if a.Usage != nil {
			rcpt.TokensIn, rcpt.TokensOut = int64(a.Usage.In), int64(a.Usage.Out)
		}
		switch q.PaidBy {
		case call.PaidByFreeCall:
			rcpt.Payment = "free"
		case call.PaidByVoucher:
			rcpt.Payment = "voucher"
		}
		now := d.Now()
		signer, err := d.receipts.Signer(r.Context(), now)
		if err == nil {
			err = rcpt.Sign(r.Context(), signer, now)
		}
		if err != nil {
			return err
		}
		return httpapi.SendJSON(w, http.StatusOK, rcpt)
	}
}

// mayRead reports whether a request was sent by the caller, the payer or the vacant's owner.
func (d *api) mayRead(r *http.Request, pair call.Pair, q *call.RequestRow) (bool, error) {
	id, err := d.receipts.Callers.Identify(r, nil)
	if err != nil {
		return false, err
	}
	if id != nil {
		return *id == pair.Caller, nil
	}
	k, err := d.AuthenticateRequest(r.Context(), r, GetReceipt.Key.Access.Key)
	switch {
	case errors.Is(err, billing.ErrNoKey):
		return false, nil
	case err != nil:
		return false, err
	case q.PaidBy == call.PaidByAccount && k.Account == hex.EncodeToString(q.Payer[:]):
		return true, nil
	}
	owner, err := d.receipts.Owner(r.Context(), pair.Vacant)
	return owner != "" && owner == k.Tenant, err
}
