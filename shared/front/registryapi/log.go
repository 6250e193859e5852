package registryapi

import (
	"context"
	"net/http"
	"reflect"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Log interface {
	LoadLatestCheckpoint(ctx context.Context) (translog.PublishedCheckpoint, error)
	LoadCheckpoint(ctx context.Context, size uint64) (translog.PublishedCheckpoint, error)
	Inclusion(ctx context.Context, seq, size uint64) (translog.Inclusion, error)
	Consistency(ctx context.Context, from, to uint64) (translog.Consistency, error)
	Leaves(ctx context.Context, seq uint64, n int) ([]identity.Hash, uint64, error)
	Epoch(ctx context.Context, number uint64) (translog.Epoch, error)
	AddCosignatures(ctx context.Context, note []byte) (translog.PublishedCheckpoint, error)
}

// The log of a given size never changes, so answers to requests that name a size may be cached
// indefinitely.
var (
	GetInclusion   = op.Op[InclusionRequest, translog.InclusionShape]{Method: "GET", Path: "/v1/proof/inclusion", Access: op.Access{Anybody: true}, Doc: "proves that an event is in the log"}
	GetConsistency = op.Op[ConsistencyRequest, translog.ConsistencyShape]{Method: "GET", Path: "/v1/proof/consistency", Access: op.Access{Anybody: true}, Doc: "proves that the log begins with the log of an earlier size"}
	ListLeaves     = op.Op[LeavesRequest, translog.LeavesShape]{Method: "GET", Path: "/v1/log/leaves", Access: op.Access{Anybody: true}, Doc: "lists the hashes of events"}
	GetEpoch       = op.Op[EpochRef, translog.EpochShape]{Method: "GET", Path: "/v1/epoch/{n}", Access: op.Access{Anybody: true}, Doc: "shows the root of an epoch, for the reference's tools"}
	GetLatestEpoch = op.Op[op.None, translog.EpochShape]{Method: "GET", Path: "/v1/epoch_root/latest", Access: op.Access{Anybody: true}, Doc: "shows the root of the last epoch"}
	Witness        = op.Op[op.Body[op.Raw[translog.WitnessShape]], translog.WitnessedShape]{Method: "POST", Path: "/v1/witness", Access: op.Access{Anybody: true}, Doc: "stores a checkpoint that a witness has cosigned"}
)

type (
	CheckpointRequest struct {
		Size uint64 `query:"size"`
	}
	// InclusionRequest requests the proof that the event Seq is in the tree of the first Size
	// events. If Size is 0, the newest tree is used.
	InclusionRequest struct {
		Seq  uint64 `query:"seq"`
		Size uint64 `query:"size"`
	}
	ConsistencyRequest struct {
		From uint64 `query:"from"`
		To   uint64 `query:"to"`
	}
	LeavesRequest struct {
		From  uint64 `query:"from"`
		Limit uint64 `query:"limit"`
	}
	EpochRef struct {
		Number uint64 `path:"n"`
	}
)

func (CheckpointRequest) Ranges() map[string]op.Range {
	return map[string]op.Range{"size": {Max: maxNumber}}
}

func (InclusionRequest) Ranges() map[string]op.Range {
	return map[string]op.Range{"seq": {Min: 1, Max: maxNumber, Required: true}, "size": {Min: 1, Max: maxNumber}}
}

func (ConsistencyRequest) Ranges() map[string]op.Range {
	return map[string]op.Range{"from": {Max: maxNumber, Required: true}, "to": {Min: 1, Max: maxNumber}}
}

func (LeavesRequest) Ranges() map[string]op.Range {
	return map[string]op.Range{
		"from":  {Min: 1, Max: maxNumber, Default: int64(1)},
		"limit": {Min: 1, Max: translog.MaxLeaves, Default: int64(translog.MaxLeaves)},
	}
}

func logRoutes(l Log) []op.Route {
	if l == nil {
		return nil
	}
	d := logAPI{l}
	return []op.Route{
		op.NewHandlerRoute(op.Spec{
			Method: "GET", Path: "/v1/checkpoint", Status: http.StatusOK, Access: op.Access{Anybody: true}, Doc: "shows the newest checkpoint, or the checkpoint of a size, as a signed note",
			In: reflect.TypeFor[CheckpointRequest](), AnswerMedia: []string{"text/plain"}, AnswerDoc: "A signed note (C2SP): the checkpoint, an empty line, and a line for each signature.",
		}, d.serveCheckpoint),
		op.NewHandlerRoute(GetInclusion.Spec(), d.serveInclusion),
		op.NewHandlerRoute(GetConsistency.Spec(), d.serveConsistency),
		op.NewHandlerRoute(ListLeaves.Spec(), d.serveLeaves),
		op.NewHandlerRoute(GetEpoch.Spec(), d.serveEpoch),
		op.NewHandlerRoute(GetLatestEpoch.Spec(), func(w http.ResponseWriter, r *http.Request) error {
			e, err := l.Epoch(r.Context(), 0)
			if err != nil {
				return err
			}
			return sendPublic(w, r, e.Shape())
		}),
		op.NewRoute(op.Server{}, Witness, d.acceptWitness),
	}
}

type logAPI struct{ log Log }

// Shared caches, such as the CDN at the edge, revalidate the answer after a day.
const cacheForever = "public, max-age=31536000, s-maxage=86400, immutable"

// Even the checkpoint of a given size must be revalidated, because cosignatures are added later.
func (d logAPI) serveCheckpoint(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, CheckpointRequest{})
	size := q.number("size")
	if q.err != nil {
		return q.err
	}
	load := d.log.LoadLatestCheckpoint
	if q.values.Has("size") {
		load = func(ctx context.Context) (translog.PublishedCheckpoint, error) {
			return d.log.LoadCheckpoint(ctx, uint64(size))
		}
	}
	p, err := load(r.Context())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	sendWithETag(w, r, p.Note)
	return nil
}

func (d logAPI) serveInclusion(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, InclusionRequest{})
	seq, size := q.number("seq"), q.number("size")
	if q.err != nil {
		return q.err
	}
	p, err := d.log.Inclusion(r.Context(), uint64(seq), uint64(size))
	if err != nil {
		return err
	}
	return sendLogAnswer(w, r, size > 0, p.Shape())
}

func (d logAPI) serveConsistency(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, ConsistencyRequest{})
	from, to := q.number("from"), q.number("to")
	if q.err != nil {
		return q.err
	}
	p, err := d.log.Consistency(r.Context(), uint64(from), uint64(to))
	if err != nil {
		return err
	}
	return sendLogAnswer(w, r, to > 0, p.Shape())
}

func (d logAPI) serveLeaves(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, LeavesRequest{})
	from, limit := q.number("from"), q.number("limit")
	if q.err != nil {
		return q.err
	}
	leaves, _, err := d.log.Leaves(r.Context(), uint64(from), int(limit))
	if err != nil {
		return err
	}
	if leaves == nil {
		leaves = []identity.Hash{}
	}
	return sendLogAnswer(w, r, len(leaves) == int(limit), translog.LeavesShape{From: uint64(from), Leaves: leaves})
}

func (d logAPI) serveEpoch(w http.ResponseWriter, r *http.Request) error {
	number, err := strconv.ParseUint(r.PathValue("n"), 10, 53)
	if err != nil {
		return &problem.Error{Kind: problem.InvalidMember, Field: "epoch", Want: "a number", Got: quoteTruncated(r.PathValue("n"))}
	}
	if number == 0 { // 0 would select the newest epoch
		return problem.New(problem.NotFound, "no epoch 0")
	}
	e, err := d.log.Epoch(r.Context(), number)
	if err != nil {
		return err
	}
	return sendLogAnswer(w, r, true, e.Shape())
}

func (d logAPI) acceptWitness(ctx context.Context, in op.Body[op.Raw[translog.WitnessShape]]) (out translog.WitnessedShape, err error) {
	note, err := parseWitness(in.Body)
	if err != nil {
		return out, err
	}
	p, err := d.log.AddCosignatures(ctx, []byte(note))
	return p.Shape(), err
}

func parseWitness(body []byte) (note string, err error) {
	var shape translog.WitnessShape
	err = canon.Unmarshal(body, &shape, canon.DefaultLimits())
	return shape.Note, schemaError(err)
}

func sendLogAnswer(w http.ResponseWriter, r *http.Request, isImmutable bool, v any) error {
	if !isImmutable {
		return sendPublic(w, r, v)
	}
	b, err := httpapi.Encode(v)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", cacheForever)
	httpapi.Send(w, http.StatusOK, b)
	return nil
}
