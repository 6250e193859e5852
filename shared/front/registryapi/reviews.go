package registryapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/reviews"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// The operations of reviews. IngestReview and IngestBlinded have the statuses and bodies of the
// reference. A review that is not counted gets 200 there, and the reason; SubmitReview refuses it.
var (
	SubmitReview  = op.Op[op.Body[op.Raw[review.Shape]], registryclient.ReviewReceipt]{Method: "POST", Path: "/v1/submit_review", Access: op.Access{Anybody: true}, Doc: "submits a review of an answered call, which its caller has signed"}
	GetReputation = op.Op[OneCard, registryclient.Reputation]{Method: "GET", Path: "/v1/reputation/{id}", Access: readers, Doc: "shows the reputation of a vacant"}
	ListReviews   = op.Op[ReviewList, registryclient.History]{Method: "GET", Path: "/v1/reputation_history/{id}", Access: readers, Doc: "lists the reviews of a vacant, the oldest first"}
	EraseClaim    = op.Op[OneReview, op.None]{Method: "DELETE", Path: "/v1/reputation_history/{id}/{position}/claim", Access: op.Access{Vacant: true}, Doc: "erases the claim of a review, for its reviewer"}
	IngestReview  = op.Op[Ingestion[review.Shape], Ingested]{Method: "POST", Path: "/v/{vacant}" + ingestPath, Access: op.Access{Anybody: true}, Doc: "ingests a review, in the form of the reference"}
	IngestBlinded = op.Op[Ingestion[review.BlindedShape], IngestedBlinded]{Method: "POST", Path: "/v/{vacant}" + blindedPath, Access: op.Access{Anybody: true}, Doc: "ingests a blinded review, in the form of the reference"}
)

const (
	ingestPath  = "/reviews/ingest"
	blindedPath = "/reviews/blinded_ingest"
)

// IsReviewPath reports whether path is a route of Registry below a vacant.
func IsReviewPath(path string) bool {
	return strings.HasPrefix(path, "/v/") && (strings.HasSuffix(path, ingestPath) || strings.HasSuffix(path, blindedPath))
}

type (
	// ReviewList is a page of reviews. The cursor is the position of its first review.
	ReviewList struct {
		OneCard
		Cursor uint64 `query:"cursor"`
		Limit  uint64 `query:"limit"`
	}
	// OneReview names a review by its target and its position.
	OneReview struct {
		OneCard
		Position uint64 `path:"position"`
	}
	// Ingestion is a review for a vacant, which the path names by its id or its name.
	Ingestion[Shape any] struct {
		Vacant string        `path:"vacant"`
		Body   op.Raw[Shape] `body:"json"`
	}
	// Ingested is the answer of IngestReview. Counted and Reason are extensions.
	Ingested struct {
		OK        bool   `json:"ok"`
		Duplicate bool   `json:"duplicate"`
		Reviewer  string `json:"reviewer,omitempty"`
		Signature string `json:"signature_hex"`
		Counted   bool   `json:"counted"`
		Reason    string `json:"reason,omitempty"` // why it is not counted
	}
	// IngestedBlinded is the answer of IngestBlinded. Counted and Reason are extensions.
	IngestedBlinded struct {
		OK         bool   `json:"ok"`
		Buffered   int    `json:"buffered"`
		Threshold  int    `json:"threshold"`
		Flushed    int    `json:"flushed_count"`
		Commitment string `json:"commitment"`
		Counted    bool   `json:"counted"` // whether it waits or was counted
		Reason     string `json:"reason,omitempty"`
	}
	// ingestRefusal is a refusal in the form of the reference.
	ingestRefusal struct {
		OK         bool         `json:"ok"`
		Error      string       `json:"error"`
		Self       *identity.ID `json:"self,omitempty"`
		Commitment string       `json:"commitment,omitempty"`
	}
)

// Ranges implements op.Ranged.
func (ReviewList) Ranges() map[string]op.Range {
	return map[string]op.Range{"cursor": {Min: 1, Max: maxNumber, Default: int64(1)}, "limit": {Min: 1, Max: registryclient.MaxReviews, Default: int64(registryclient.MaxReviews)}}
}

func (d *api) reviewRoutes() []op.Route {
	return []op.Route{
		op.On(op.Server{}, SubmitReview, d.submitReview),
		op.Handle(GetReputation.Spec(), d.reputation),
		op.Handle(ListReviews.Spec(), d.reviews),
		op.Handle(EraseClaim.Spec(), d.eraseClaim),
		op.Handle(ingests(IngestReview.Spec()), d.ingest),
		op.Handle(ingests(IngestBlinded.Spec()), d.ingestBlinded),
	}
}

func (d *api) submitReview(ctx context.Context, in op.Body[op.Raw[review.Shape]]) (out registryclient.ReviewReceipt, err error) {
	rec, err := review.Parse(in.Body)
	if err != nil {
		return out, schema(err)
	}
	return d.Reviews.Submit(ctx, rec, nil)
}

func (d *api) reputation(w http.ResponseWriter, r *http.Request) error {
	id, who, err := d.asked(r)
	if err != nil {
		return err
	}
	of, err := d.Reviews.Reputation(r.Context(), id, who)
	if err != nil {
		return err
	}
	return show(w, r, who, of)
}

// asked returns the vacant of a path, and who asks.
func (d *api) asked(r *http.Request) (id identity.ID, who *identity.ID, err error) {
	if id, err = vacantID(r.PathValue("id")); err == nil {
		who, err = d.caller.Of(r, nil)
	}
	return id, who, err
}

func (d *api) reviews(w http.ResponseWriter, r *http.Request) error {
	id, who, err := d.asked(r)
	q := queryOf(r, ReviewList{})
	from, limit := q.number("cursor"), q.number("limit")
	if err == nil {
		err = q.err
	}
	if err != nil {
		return err
	}
	page, err := d.Reviews.History(r.Context(), id, who, uint64(from), int(limit))
	if err != nil {
		return err
	}
	return show(w, r, who, page)
}

func (d *api) eraseClaim(w http.ResponseWriter, r *http.Request) error {
	id, who, err := d.asked(r)
	if err != nil {
		return err
	}
	if who == nil {
		return problem.New(problem.Unauthorized, "only the reviewer erases a claim; sign the request with its key")
	}
	position, err := strconv.ParseUint(r.PathValue("position"), 10, 63)
	if err == nil {
		err = d.Reviews.EraseClaim(r.Context(), id, position, who)
	} else {
		err = &problem.Error{Kind: problem.Schema, Field: "position", Want: "a number", Got: clip(r.PathValue("position"))}
	}
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// hosted returns the vacant that a path names by its id or its name. A closed child is not found.
func (d *api) hosted(r *http.Request) (id identity.ID, err error) {
	name := r.PathValue("vacant")
	var rec vacants.Record
	ok := false
	if id, err = identity.ParseID(name); err == nil {
		rec, ok, err = d.Vacants.Show(r.Context(), id)
	} else {
		rec, ok, err = d.Vacants.ShowNamed(r.Context(), name)
	}
	if err == nil && (!ok || rec.Closed) {
		err = problem.New(problem.NotFound, "vacant %s is not hosted here", clip(name))
	}
	return rec.ID, err
}

// ingests describes the errors of an operation in the form of the reference.
func ingests(s op.Spec) op.Spec {
	s.Errors, s.Open = reflect.TypeFor[ingestRefusal](), true
	return s
}

// refuseLax sends a refusal in the form of the reference. It returns a Rendered error for the log.
func refuseLax(w http.ResponseWriter, status int, refusal ingestRefusal) error {
	if err := httpapi.Answer(w, status, refusal); err != nil {
		return err
	}
	kinds := map[int]problem.Kind{400: problem.Malformed, 401: problem.BadSignature, 409: problem.Conflict, 422: problem.Schema, 429: problem.TooMany}
	return httpapi.Rendered{Err: problem.New(kinds[status], "%s", refusal.Error)}
}

// readLax reads a body. It refuses bodies in the words of the reference.
func readLax(w http.ResponseWriter, r *http.Request) (v canon.Value, err error) {
	body, err := httpapi.Body(w, r, canon.DefaultLimits().Bytes)
	if err != nil {
		return v, err
	}
	v, err = canon.Parse(body, canon.DefaultLimits())
	switch {
	case err != nil:
		return v, refuseLax(w, http.StatusBadRequest, ingestRefusal{Error: "bad_json: " + problem.Of(err).Text()})
	case v.Kind() != canon.Object:
		return v, refuseLax(w, http.StatusBadRequest, ingestRefusal{Error: "payload_not_object"})
	}
	return v, nil
}

// checkLax returns the refusal by which the reference refuses a record for a vacant, or nil.
func checkLax(v canon.Value, self identity.ID) *ingestRefusal {
	if target, _ := v.Get("target"); target.Text() != self.String() {
		return &ingestRefusal{Error: "target_mismatch", Self: &self}
	}
	of, _ := v.Get("dimensions")
	for _, d := range review.Dimensions()[:3] {
		if _, ok := of.Get(d); !ok {
			return &ingestRefusal{Error: "dimensions_missing_FLR"}
		}
	}
	for _, d := range review.Dimensions()[:3] {
		signal, _ := of.Get(d)
		if f, ok := review.Number(signal); signal.Kind() != canon.Bool && !(ok && f >= 0 && f <= 1) {
			return &ingestRefusal{Error: "dimension_out_of_range:" + d}
		}
	}
	return nil
}

// isFailure reports whether err is the fault of the host, so that a review may be sent again.
func isFailure(err error) bool {
	return problem.Of(err).Kind.Row().Status >= http.StatusInternalServerError
}

func (d *api) ingest(w http.ResponseWriter, r *http.Request) error {
	self, err := d.hosted(r)
	if err != nil {
		return err
	}
	v, err := readLax(w, r)
	if err != nil {
		return err
	}
	if refusal := checkLax(v, self); refusal != nil {
		return refuseLax(w, http.StatusUnprocessableEntity, *refusal)
	}
	if !review.VerifyLax(v) {
		return refuseLax(w, http.StatusUnauthorized, ingestRefusal{Error: "signature_invalid"})
	}
	signature, _ := v.Get("signature_hex")
	reviewer, _ := v.Get("reviewer")
	out := Ingested{OK: true, Signature: signature.Text()}
	rec, err := review.Of(v)
	if err == nil {
		var receipt registryclient.ReviewReceipt
		receipt, err = d.Reviews.Submit(r.Context(), rec, nil)
		out.Duplicate = receipt.Duplicate
	}
	switch {
	case err != nil && isFailure(err):
		return err
	case err != nil:
		out.Reason = problem.Of(err).Text()
	default:
		out.Counted = true
	}
	if !out.Duplicate {
		out.Reviewer = reviewer.Text()
	}
	return httpapi.Answer(w, http.StatusOK, out)
}

func (d *api) ingestBlinded(w http.ResponseWriter, r *http.Request) error {
	self, err := d.hosted(r)
	if err != nil {
		return err
	}
	body, err := readLax(w, r)
	if err != nil {
		return err
	}
	record, hasRecord := body.Get("record")
	reveal, hasReveal := body.Get("reveal")
	commitment, _ := record.Get("reviewer_commitment")
	scheme, _ := record.Get("commitment_scheme")
	out := IngestedBlinded{OK: true, Threshold: reviews.Threshold, Commitment: commitment.Text()}
	switch {
	case !hasRecord || !hasReveal:
		return refuseLax(w, http.StatusBadRequest, ingestRefusal{Error: "expected {record:..., reveal:...}"})
	case record.Kind() != canon.Object || reveal.Kind() != canon.Object:
		return refuseLax(w, http.StatusBadRequest, ingestRefusal{Error: "record/reveal must be objects"})
	case scheme.Text() != review.Scheme:
		return refuseLax(w, http.StatusBadRequest, ingestRefusal{Error: "wrong commitment_scheme; expected " + review.Scheme})
	}
	if refusal := checkLax(record, self); refusal != nil {
		return refuseLax(w, http.StatusUnprocessableEntity, *refusal)
	}
	proof, err := review.ParseReveal(reveal)
	if err != nil {
		return refuseLax(w, http.StatusUnprocessableEntity, ingestRefusal{Error: "reveal_envelope_invalid: " + problem.Of(err).Text()})
	}
	rec, err := review.Of(record)
	switch {
	case err != nil && len(out.Commitment) != 64:
		return refuseLax(w, http.StatusUnprocessableEntity, ingestRefusal{Error: "reviewer_commitment_invalid"})
	case err != nil:
		out.Reason = problem.Of(err).Text()
		return httpapi.Answer(w, http.StatusOK, out)
	}
	state, err := d.Reviews.Blind(r.Context(), rec, proof)
	out.Buffered, out.Flushed, out.Counted = state.Waiting, state.Counted, err == nil
	switch {
	case err == nil:
	case errors.Is(err, reviews.ErrSpent):
		return refuseLax(w, http.StatusConflict, ingestRefusal{Error: reviews.ErrSpent.Error(), Commitment: out.Commitment})
	case problem.Is(err, problem.BadSignature):
		return refuseLax(w, http.StatusUnprocessableEntity, ingestRefusal{Error: fmt.Sprintf("batch_add_rejected: %s", problem.Of(err).Text())})
	case problem.Is(err, problem.TooMany):
		return refuseLax(w, http.StatusTooManyRequests, ingestRefusal{Error: problem.Of(err).Text()})
	case isFailure(err):
		return err
	default:
		out.Reason = problem.Of(err).Text()
	}
	return httpapi.Answer(w, http.StatusOK, out)
}
