package registryapi

import (
	"cmp"
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

// IngestReview and IngestBlinded have the statuses and bodies of the reference. If the host does
// not count a valid review, they answer 200 with the reason, whereas SubmitReview refuses the
// review.
var (
	SubmitReview  = op.Op[op.Body[op.Raw[review.Members]], registryclient.ReviewReceipt]{Method: "POST", Path: "/v1/submit_review", Access: op.Access{Anybody: true}, Doc: "submits a review of an answered call, which its caller has signed"}
	GetReputation = op.Op[VacantRef, registryclient.Reputation]{Method: "GET", Path: "/v1/reputation/{id}", Access: op.Access{Anybody: true}, Doc: "shows the reputation of a vacant"}
	ListReviews   = op.Op[ReviewsRequest, registryclient.History]{Method: "GET", Path: "/v1/reputation_history/{id}", Access: op.Access{Anybody: true}, Doc: "lists the reviews of a vacant, the oldest first"}
	EraseClaim    = op.Op[ReviewRef, op.None]{Method: "DELETE", Path: "/v1/reputation_history/{id}/{position}/claim", Access: op.Access{Vacant: true}, Doc: "erases the claim of a review, for its reviewer"}
	IngestReview  = op.Op[IngestRequest[review.Members], Ingested]{Method: "POST", Path: "/v/{vacant}" + ingestPath, Access: op.Access{Anybody: true}, Doc: "ingests a review, in the form of the reference"}
	IngestBlinded = op.Op[IngestRequest[BlindedReview], IngestedBlinded]{Method: "POST", Path: "/v/{vacant}" + blindedPath, Access: op.Access{Anybody: true}, Doc: "ingests a blinded review, in the form of the reference"}
)

const (
	ingestPath  = "/reviews/ingest"
	blindedPath = "/reviews/blinded_ingest"
)

// IsReviewPath reports whether path is a review route below a vacant.
func IsReviewPath(path string) bool {
	return strings.HasPrefix(path, "/v/") && (strings.HasSuffix(path, ingestPath) || strings.HasSuffix(path, blindedPath))
}

type (
	// Cursor is the position of the first review.
	ReviewsRequest struct {
		VacantRef
		Cursor uint64 `query:"cursor"`
		Limit  uint64 `query:"limit"`
	}
	ReviewRef struct {
		VacantRef
		Position uint64 `path:"position"`
	}
	// Vacant is the id or the name of the review's target.
	IngestRequest[Members any] struct {
		Vacant string          `path:"vacant"`
		Body   op.Raw[Members] `body:"json"`
	}
	BlindedReview struct {
		Record review.Members `json:"record" canon:"required"`
		Reveal review.Reveal  `json:"reveal" canon:"required"`
	}
	Ingested struct {
		OK        bool   `json:"ok"`
		Duplicate bool   `json:"duplicate"`
		Reviewer  string `json:"reviewer,omitempty"`
		Signature string `json:"signature_hex"`
		Verdict
	}
	IngestedBlinded struct {
		OK         bool   `json:"ok"`
		Buffered   int    `json:"buffered"`
		Threshold  int    `json:"threshold"`
		Flushed    int    `json:"flushed_count"`
		Commitment string `json:"commitment"`
		Verdict
	}
	// Verdict is an extension of the reference's answers.
	Verdict struct {
		Counted bool   `json:"counted"` // true if the review was counted, or waits for further reviewers
		Reason  string `json:"reason,omitempty"`
	}
	// ingestRefusal is a refusal in the form of the reference.
	ingestRefusal struct {
		kind       problem.Kind
		OK         bool         `json:"ok"`
		Message    string       `json:"error"`
		Self       *identity.ID `json:"self,omitempty"`
		Commitment string       `json:"commitment,omitempty"`
	}
)

func (r *ingestRefusal) Error() string { return r.Message }

func refuse(kind problem.Kind, message string) error {
	return &ingestRefusal{kind: kind, Message: message}
}

func (d *api) reviewRoutes() []op.Route {
	reviewerServer := op.Server{IdentifyVacant: func(r *http.Request, body []byte) (*identity.ID, error) {
		reviewer, err := d.verifier.Identify(r, body)
		if err == nil && reviewer == nil {
			err = problem.New(problem.Unauthorized, "only the reviewer may erase a claim; sign the request with the reviewer's key")
		}
		return reviewer, err
	}}
	return []op.Route{
		op.NewRoute(op.Server{}, SubmitReview, d.acceptReview),
		op.NewRoute(op.Server{}, GetReputation, d.serveReputation),
		op.NewRoute(op.Server{}, ListReviews, d.serveReviews),
		op.NewRoute(reviewerServer, EraseClaim, d.deleteClaim),
		d.ingestRoute(IngestReview.Spec(), d.acceptIngested),
		d.ingestRoute(IngestBlinded.Spec(), d.acceptBlinded),
	}
}

func (d *api) acceptReview(ctx context.Context, in op.Body[op.Raw[review.Members]]) (out registryclient.ReviewReceipt, err error) {
	rec, err := review.Parse(in.Body)
	if err != nil {
		return out, schemaError(err)
	}
	return d.Reviews.Submit(ctx, rec)
}

func (d *api) serveReputation(ctx context.Context, in VacantRef) (out registryclient.Reputation, err error) {
	id, err := parseVacantID(in.ID)
	if err != nil {
		return out, err
	}
	return d.Reviews.Reputation(ctx, id)
}

func (d *api) serveReviews(ctx context.Context, in ReviewsRequest) (out registryclient.History, err error) {
	id, err := parseVacantID(in.ID)
	if err == nil && in.Limit > registryclient.MaxReviewsPerPage {
		err = &problem.Error{Kind: problem.InvalidMember, Field: "limit", Want: fmt.Sprintf("a number from 1 to %d", registryclient.MaxReviewsPerPage), Got: fmt.Sprint(in.Limit)}
	}
	if err != nil {
		return out, err
	}
	return d.Reviews.History(ctx, id, max(in.Cursor, 1), int(cmp.Or(in.Limit, registryclient.MaxReviewsPerPage)))
}

func (d *api) deleteClaim(ctx context.Context, in ReviewRef) (empty op.None, err error) {
	id, err := parseVacantID(in.ID)
	if err != nil {
		return empty, err
	}
	return empty, d.Reviews.EraseClaim(ctx, id, in.Position, op.CallerOf(ctx).Vacant)
}

// findHosted returns the vacant with an id or a name. For a closed child, the error is NotFound.
func (d *api) findHosted(ctx context.Context, name string) (identity.ID, error) {
	var rec vacants.Record
	id, err := identity.ParseID(name)
	ok := false
	if err == nil {
		rec, ok, err = d.Vacants.FindCached(ctx, id)
	} else {
		rec, ok, err = d.Vacants.FindCachedByName(ctx, name)
	}
	if err == nil && (!ok || rec.Closed) {
		err = problem.New(problem.NotFound, "vacant %s is not hosted here", quoteTruncated(name))
	}
	return rec.ID, err
}

// ingestRoute returns a route whose requests and refusals have the forms of the reference. ingest
// returns the answer to v, a review of the vacant target.
func (d *api) ingestRoute(s op.Spec, ingest func(ctx context.Context, target identity.ID, v canon.Value) (any, error)) op.Route {
	s.ErrorType, s.IgnoresUnknown = reflect.TypeFor[ingestRefusal](), true
	handle := func(w http.ResponseWriter, r *http.Request) (any, error) {
		target, err := d.findHosted(r.Context(), r.PathValue("vacant"))
		if err != nil {
			return nil, err
		}
		body, err := httpapi.ReadBody(w, r, canon.DefaultLimits().Bytes)
		if err != nil {
			return nil, err
		}
		v, err := canon.Parse(body, canon.DefaultLimits())
		switch {
		case err != nil:
			return nil, refuse(problem.Malformed, "bad_json: "+problem.AsError(err).Text())
		case v.Kind() != canon.Object:
			return nil, refuse(problem.Malformed, "payload_not_object")
		}
		return ingest(r.Context(), target, v)
	}
	return op.NewHandlerRoute(s, func(w http.ResponseWriter, r *http.Request) error {
		answer, err := handle(w, r)
		if err == nil {
			return httpapi.SendJSON(w, http.StatusOK, answer)
		}
		p := problem.AsError(err)
		var refusal *ingestRefusal
		if errors.As(err, &refusal) {
			p = &problem.Error{Kind: refusal.kind, Detail: refusal.Message}
			err = p
		} else {
			refusal = &ingestRefusal{Message: p.Text()}
		}
		httpapi.SetRefusalHeaders(w.Header(), p)
		if err := httpapi.SendJSON(w, p.Kind.Forms().HTTPStatus, refusal); err != nil {
			return err
		}
		return httpapi.SentError{Err: err}
	})
}

// checkReferenceRules makes only the checks that the reference makes, and returns its errors.
func checkReferenceRules(v canon.Value, target identity.ID) error {
	if textMember(v, "target") != target.String() {
		return &ingestRefusal{kind: problem.InvalidMember, Message: "target_mismatch", Self: &target}
	}
	ratings, _ := v.Get("dimensions")
	for _, d := range review.Dimensions()[:3] {
		if _, ok := ratings.Get(d); !ok {
			return refuse(problem.InvalidMember, "dimensions_missing_FLR")
		}
	}
	for _, d := range review.Dimensions()[:3] {
		signal, _ := ratings.Get(d)
		f, err := strconv.ParseFloat(string(signal.AppendCJ(nil)), 64) // strings have quotes and fail
		if signal.Kind() != canon.Bool && !(err == nil && f >= 0 && f <= 1) {
			return refuse(problem.InvalidMember, "dimension_out_of_range:"+d)
		}
	}
	return nil
}

func textMember(v canon.Value, member string) string {
	m, _ := v.Get(member)
	return m.Text()
}

// verdictOf converts the refusal of a review to a Verdict. If the host has failed, verdictOf
// returns err, so the client may send the review again.
func verdictOf(err error) (Verdict, error) {
	switch {
	case err == nil:
		return Verdict{Counted: true}, nil
	case problem.AsError(err).Kind.Forms().HTTPStatus >= http.StatusInternalServerError:
		return Verdict{}, err
	}
	return Verdict{Reason: problem.AsError(err).Text()}, nil
}

func (d *api) acceptIngested(ctx context.Context, target identity.ID, v canon.Value) (any, error) {
	if err := checkReferenceRules(v, target); err != nil {
		return nil, err
	}
	if !review.VerifySignatureOnly(v) {
		return nil, refuse(problem.BadSignature, "signature_invalid")
	}
	var receipt registryclient.ReviewReceipt
	rec, err := review.ParseValue(v)
	if err == nil {
		receipt, err = d.Reviews.Submit(ctx, rec)
	}
	out := Ingested{OK: true, Duplicate: receipt.Duplicate, Signature: textMember(v, "signature_hex")}
	if !out.Duplicate {
		out.Reviewer = textMember(v, "reviewer")
	}
	out.Verdict, err = verdictOf(err)
	return out, err
}

func (d *api) acceptBlinded(ctx context.Context, target identity.ID, v canon.Value) (any, error) {
	record, hasRecord := v.Get("record")
	reveal, hasReveal := v.Get("reveal")
	commitment := textMember(record, "reviewer_commitment")
	switch {
	case !hasRecord || !hasReveal:
		return nil, refuse(problem.Malformed, "expected {record:..., reveal:...}")
	case record.Kind() != canon.Object || reveal.Kind() != canon.Object:
		return nil, refuse(problem.Malformed, "record/reveal must be objects")
	case textMember(record, "commitment_scheme") != review.Scheme:
		return nil, refuse(problem.Malformed, "wrong commitment_scheme; expected "+review.Scheme)
	}
	if err := checkReferenceRules(record, target); err != nil {
		return nil, err
	}
	var blinded review.Blinded
	if err := canon.Unmarshal(reveal.AppendCJ(nil), &blinded.Reveal, canon.DefaultLimits()); err != nil {
		return nil, refuse(problem.InvalidMember, "reveal_envelope_invalid: "+problem.AsError(err).Text())
	}
	var batch reviews.BlindedResult
	var err error
	if blinded.Record, err = review.ParseValue(record); err == nil {
		batch, err = d.Reviews.SubmitBlinded(ctx, blinded)
	} else if len(commitment) != 2*identity.Size {
		return nil, refuse(problem.InvalidMember, "reviewer_commitment_invalid")
	}
	switch {
	case errors.Is(err, reviews.ErrCommitmentUsed):
		return nil, &ingestRefusal{kind: problem.Conflict, Message: reviews.ErrCommitmentUsed.Error(), Commitment: commitment}
	case problem.Is(err, problem.BadSignature):
		return nil, refuse(problem.InvalidMember, "batch_add_rejected: "+problem.AsError(err).Text())
	case problem.Is(err, problem.TooManyRequests):
		return nil, refuse(problem.TooManyRequests, problem.AsError(err).Text())
	}
	out := IngestedBlinded{OK: true, Buffered: batch.Waiting, Threshold: reviews.MinReviewers, Flushed: batch.Submitted, Commitment: commitment}
	out.Verdict, err = verdictOf(err)
	return out, err
}
