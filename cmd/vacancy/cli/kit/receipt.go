package kit

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
	"github.com/vacancy-host/vacancy/shared/vacant/receipt"
)

func (a *App) SendSigned(ctx context.Context, transport *dispatch.HTTP, signer Signer, method, url string) ([]byte, error) {
	u, err := dispatch.ParseURL(url)
	if err != nil {
		return nil, err
	}
	proof, err := readproof.Sign(ctx, signer.Key, readproof.Request{Authority: u.Host, Method: method, Target: u.RequestURI()}, a.Now())
	if err != nil {
		return nil, err
	}
	reply, err := transport.Do(ctx, outbound.Request{Method: method, URL: u.String(), Header: http.Header{readproof.Header: {proof}}})
	if err != nil {
		return nil, err
	}
	if reply.Status != http.StatusOK && reply.Status != http.StatusNoContent {
		var refusal httpapi.Refusal
		if json.Unmarshal(reply.Body, &refusal) != nil {
			return nil, problem.New(problem.Unavailable, "%s answers %d", u.Host, reply.Status)
		}
		return nil, refusal.Problem()
	}
	return reply.Body, nil
}

// FetchReceipt fetches the receipt of a call. Position 0 stands for the last answered call that had
// a price. The signature of the receipt is not verified.
func (a *App) FetchReceipt(ctx context.Context, transport *dispatch.HTTP, signer Signer, target dispatch.Target, position uint64) (receipt.Receipt, error) {
	name := EscapeLine(target.Name)
	base, _, ok := strings.Cut(target.URL, "/v/")
	if !ok {
		return receipt.Receipt{}, problem.New(problem.Usage, "the endpoint of %s: expected a URL with /v/, for example https://agents.example.org/v/clerk, got %.200q", name, target.URL)
	}
	positionText := account.LastPosition
	if position > 0 {
		positionText = strconv.FormatUint(position, 10)
	}
	body, err := a.SendSigned(ctx, transport, signer, http.MethodGet, base+call.ReceiptsPrefix+signer.Key.ID().String()+"/"+target.ID.String()+"/"+positionText)
	if err != nil {
		return receipt.Receipt{}, err
	}
	r, err := receipt.Parse(body)
	if err != nil {
		return r, problem.WithPlace(problem.Untrusted, "the host's answer", err)
	}
	if r.Caller != signer.Key.ID() || r.Vacant != target.ID || position > 0 && r.Position != int64(position) {
		return r, problem.New(problem.Untrusted, "the host's answer is the receipt of another call")
	}
	return r, nil
}
