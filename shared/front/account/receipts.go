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

type Receipts struct {
	// PricedCall reads an answered call that had a price. Position 0 means the last charged call of
	// the pair. The bool is false if there is no such call.
	PricedCall func(ctx context.Context, pair call.Pair, position uint64) (call.RequestRow, call.ResponseRow, bool, error)
	Signer     func(ctx context.Context, at time.Time) (certificate.Signer, error)
	TenantOf   func(ctx context.Context, id identity.ID) (string, error)
	Callers    caller.Verifier
}

const receiptRoute = "{caller}/{vacant}/{position}"

const LastPosition = "last"

func receiptNotFound() error { return problem.New(problem.NotFound, "no such receipt") }

// receiptHandler answers NotFound to parties that may not read the receipt.
func (d *api) receiptHandler(canRead func(*http.Request, call.Pair, *call.RequestRow) (bool, error)) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err1 := identity.ParseID(r.PathValue("caller"))
		v, err2 := identity.ParseID(r.PathValue("vacant"))
		if err1 != nil || err2 != nil {
			return receiptNotFound()
		}
		pair := call.Pair{Caller: c, Vacant: v}
		position := uint64(0)
		if s := r.PathValue("position"); s != LastPosition {
			n, err := strconv.ParseUint(s, 10, 63)
			if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
				return receiptNotFound()
			}
			position = n
		}
		requestRow, responseRow, found, err := d.receipts.PricedCall(r.Context(), pair, position)
		if err != nil {
			return err
		}
		allowed, err := canRead(r, pair, &requestRow)
		if err != nil {
			return err
		}
		if !found || !allowed {
			return receiptNotFound()
		}
		price, err := d.PriceVersion(r.Context(), pair.Vacant, requestRow.PriceVersion)
		if err != nil {
			return err
		}
		rcpt := receipt.Receipt{
			Caller: pair.Caller, Vacant: pair.Vacant, Position: int64(requestRow.Position), RequestHash: requestRow.Hash, ReplyHash: responseRow.Hash, Time: canon.FormatTime(responseRow.Time),
			PriceVersion: int64(requestRow.PriceVersion), Price: price.String(), Hold: int64(requestRow.Price), Charge: int64(money.Amount(responseRow.Charge)), Payment: "account", CutReason: string(responseRow.CutReason),
		}
		if responseRow.Usage != nil {
			rcpt.TokensIn, rcpt.TokensOut = int64(responseRow.Usage.InputTokens), int64(responseRow.Usage.OutputTokens)
		}
		switch requestRow.PaidBy {
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

// isReceiptParty reports whether a request was sent by the caller, the payer or the vacant's owner.
func (d *api) isReceiptParty(r *http.Request, pair call.Pair, requestRow *call.RequestRow) (bool, error) {
	id, err := d.receipts.Callers.Identify(r, nil)
	if err != nil {
		return false, err
	}
	if id != nil {
		return *id == pair.Caller, nil
	}
	key, err := d.AuthenticateRequest(r.Context(), r, GetReceipt.Key.Access.Key)
	switch {
	case errors.Is(err, billing.ErrNoKey):
		return false, nil
	case err != nil:
		return false, err
	case requestRow.PaidBy == call.PaidByAccount && key.Account == hex.EncodeToString(requestRow.Payer[:]):
		return true, nil
	}
	owner, err := d.receipts.TenantOf(r.Context(), pair.Vacant)
	return owner != "" && owner == key.Tenant, err
}
