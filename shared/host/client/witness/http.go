package witness

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type HTTP struct {
	Client *registryclient.Client
}

func (h HTTP) Checkpoint(ctx context.Context) ([]byte, error) {
	return h.Client.GetRaw(ctx, "/v1/checkpoint", nil)
}

func (h HTTP) Consistency(ctx context.Context, from, to uint64) (translog.Proof, error) {
	var s translog.ConsistencyShape
	if err := h.Client.Get(ctx, "/v1/proof/consistency", uintQuery("from", from, "to", to), &s); err != nil {
		return nil, err
	}
	return translog.ParseProof(s.Proof)
}

func (h HTTP) Inclusion(ctx context.Context, seq, size uint64) (translog.Proof, error) {
	var s translog.InclusionShape
	if err := h.Client.Get(ctx, "/v1/proof/inclusion", uintQuery("seq", seq, "size", size), &s); err != nil {
		return nil, err
	}
	return translog.ParseProof(s.Proof)
}

func (h HTTP) Leaves(ctx context.Context, seq uint64, n int) ([]identity.Hash, error) {
	var s translog.LeavesShape
	err := h.Client.Get(ctx, "/v1/log/leaves", uintQuery("from", seq, "limit", uint64(n)), &s)
	return s.Leaves, err
}

func (h HTTP) Event(ctx context.Context, seq uint64) (*event.Event, identity.Hash, error) {
	entry, err := h.Client.Event(ctx, seq)
	var status *registryclient.StatusError
	if errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusForbidden) {
		return nil, identity.Hash{}, nil
	}
	if err != nil {
		return nil, identity.Hash{}, err
	}
	prev, err := identity.ParseHash(entry.Prev)
	signature, err2 := identity.ParseHex(entry.Signature)
	if err = errors.Join(err, err2); err != nil {
		return nil, prev, problem.Wrap(problem.Untrusted, err, "event %d: the host returned no valid signature and previous hash", seq)
	}
	return &event.Event{
		Type: event.Type(entry.Type), Actor: entry.Actor, Payload: []byte(entry.Payload), IdempotencyKey: entry.IdempotencyKey,
		Time: entry.Time, ActorSeq: entry.ActorSeq, Signature: signature,
	}, prev, nil
}

func (h HTTP) SubmitCheckpoint(ctx context.Context, note []byte) (int, error) {
	var s translog.WitnessedShape
	err := h.Client.Post(ctx, "/v1/witness", translog.WitnessShape{Note: string(note)}, &s)
	return s.Cosignatures, err
}

func uintQuery(a string, x uint64, b string, y uint64) url.Values {
	return url.Values{a: {strconv.FormatUint(x, 10)}, b: {strconv.FormatUint(y, 10)}}
}
