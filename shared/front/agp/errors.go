package agp

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	bookings "github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/booking"
)

type refusal struct {
	code    string
	problem *problem.Error
}

func (r *refusal) Error() string { return r.problem.Error() }

func (r *refusal) Unwrap() error { return r.problem }

func newRefusal(code string, kind problem.Kind, format string, args ...any) error {
	return &refusal{code, problem.New(kind, format, args...)}
}

// failure is the body of every error. Detail is a text for people or a validationError. Error.Code
// is for programs.
type failure struct {
	Detail any `json:"detail"`
	Error  struct {
		Code    string          `json:"code"`
		From    booking.State   `json:"from,omitempty"`
		To      booking.State   `json:"to,omitempty"`
		Allowed []booking.State `json:"allowed,omitempty"`
	} `json:"error"`
	RequestID string `json:"request_id"`
}

func errorCode(err error) string {
	var agpErr *refusal
	var quota *billing.QuotaError
	switch {
	case errors.As(err, &agpErr):
		return agpErr.code
	case errors.Is(err, billing.ErrNoKey):
		return "missing_key"
	case errors.Is(err, billing.ErrRevokedKey):
		return "revoked_key"
	case errors.Is(err, billing.ErrExpiredKey):
		return "expired_key"
	case errors.Is(err, bookings.ErrNotBookable):
		return "venue_not_bookable"
	case errors.Is(err, bookings.ErrSlotTaken):
		return "slot_taken"
	case errors.As(err, new(*booking.TransitionError)):
		return "illegal_transition"
	case errors.As(err, &quota):
		return "quota_exceeded"
	case errors.As(err, new(validationError)):
		return "invalid_request"
	}
	switch k := problem.AsError(err).Kind; k {
	case problem.Unauthorized:
		return "invalid_key"
	case problem.Unavailable:
		return "network_unavailable"
	default:
		return k.String()
	}
}

// sendError answers with an error and returns it for the log.
func sendError(w http.ResponseWriter, requestID string, err error) error {
	var f failure
	f.Error.Code, f.RequestID = errorCode(err), requestID
	status := problem.AsError(err).Kind.Forms().HTTPStatus
	f.Detail = problem.AsError(err).Text()
	var invalidErr validationError
	var illegal *booking.TransitionError
	var quota *billing.QuotaError
	switch {
	case errors.As(err, &invalidErr):
		status, f.Detail = http.StatusUnprocessableEntity, invalidErr
	case errors.As(err, &illegal):
		f.Error.From, f.Error.To, f.Error.Allowed = illegal.From, illegal.To, illegal.Allowed
	case errors.As(err, &quota):
		setRateLimitHeaders(w, quota.Allowance)
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(max(quota.RetryAfter.Seconds(), 1)))))
	case status == http.StatusUnprocessableEntity:
		p := problem.AsError(err)
		f.Detail = validationError{{fieldLocation(p.Field), p.Text(), "value_error"}}
	}
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Cache-Control", "no-store")
	b, encErr := json.Marshal(f)
	if encErr != nil {
		return encErr
	}
	httpapi.Send(w, status, append(b, '\n'))
	if invalidErr != nil {
		err = problem.Wrap(problem.InvalidMember, err, "%s", invalidErr.Error())
	}
	return httpapi.SentError{Err: err}
}

func setRateLimitHeaders(w http.ResponseWriter, allowance billing.Allowance) {
	if allowance.Limit == 0 {
		return
	}
	h := w.Header()
	h.Set("X-RateLimit-Limit", strconv.FormatInt(allowance.Limit, 10))
	h.Set("X-RateLimit-Remaining", strconv.FormatInt(allowance.Remaining, 10))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(allowance.Reset.Unix(), 10))
}
