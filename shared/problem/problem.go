// Package problem defines the kinds of errors, with the HTTP status, JSON-RPC code and exit code of
// each kind.
//
// Every layer returns errors of a Kind, and only handlers and the command line render them. An
// error without a Kind is Internal: clients see no detail, and the log has the complete text.
package problem

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

type Kind uint8

// The zero Kind is Internal, so that an error with a forgotten kind is never taken for a harmless
// one.
const (
	Internal Kind = iota
	Usage
	Malformed
	NotJSON
	Unauthorized
	BadSignature
	PaymentRequired
	Forbidden
	NotFound
	MethodNotAllowed
	SlowBody
	NotAddressed
	Conflict
	Replay
	Gap
	Fork
	BelowFloor
	Gone
	TooLarge
	UnsupportedMedia
	Misdirected
	NotAccepting
	ClockSkew
	TooManyRequests
	BehaviourFailed
	Unavailable
	DeadlineExceeded
	Untrusted
	Damaged
	Pending
	Canceled
	InvalidMember
	OutOfSequence
	IdempotencyConflict
	Equivocation
	Revoked
	ConsentRequired
	GraduationRateExceeded
	CollusionFound
	AlreadyGraduated
	TreeOnly
	SubstrateUnavailable
	SubstrateMisconfigured
	SubstrateTooLarge
	SubstrateBusy
	SubstrateRefused
	BudgetExceeded
	BudgetSpent
	PriceAboveMax
	SpendCapReached
	AccountSuspended
	TestKeyNotAllowed
	ScopeRequired
	QuotaReached
	NotAcceptable
	PreconditionFailed
	NoMatchingCall
	AlreadyReviewed
	Ineligible
	NoWorker
)

// Forms contains the public representations of a Kind.
type Forms struct {
	// Code is the machine-readable `code` member of an error response.
	Code           string
	HTTPStatus     int
	RPCCode        int // JSON-RPC 2.0 error code
	ExitCode       int // exit code of the command line
	DefaultMessage string
}

// The exit codes of the command line. ExitCodes returns their meanings.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitConflict    = 4
	ExitRefused     = 5
	ExitUntrusted   = 6
	ExitUnavailable = 7
	ExitPending     = 8
	ExitCanceled    = 130
)

var formsByKind = map[Kind]Forms{
	Internal:               {"internal", http.StatusInternalServerError, -32603, ExitFailed, "internal error"},
	Usage:                  {"usage", http.StatusBadRequest, -32602, ExitUsage, "wrong usage"},
	Malformed:              {"malformed", http.StatusBadRequest, -32600, ExitUsage, "malformed request"},
	NotJSON:                {"not_json_object", http.StatusUnprocessableEntity, -32700, ExitUsage, "body must be one JSON object"},
	Unauthorized:           {"unauthorized", http.StatusUnauthorized, -32001, ExitRefused, "a key is required"},
	BadSignature:           {"bad_signature", http.StatusUnauthorized, -32001, ExitRefused, "signature did not verify"},
	PaymentRequired:        {"payment_required", http.StatusPaymentRequired, -32002, ExitRefused, "payment required"},
	Forbidden:              {"forbidden", http.StatusForbidden, -32003, ExitRefused, "not allowed"},
	NotFound:               {"not_found", http.StatusNotFound, -32004, ExitNotFound, "not found"},
	MethodNotAllowed:       {"method_not_allowed", http.StatusMethodNotAllowed, -32601, ExitUsage, "method not allowed"},
	SlowBody:               {"slow_body", http.StatusRequestTimeout, -32006, ExitUnavailable, "the body did not arrive in time"},
	NotAddressed:           {"not_addressed_to_self", http.StatusUnprocessableEntity, -32005, ExitRefused, "not addressed to a vacant of this host"},
	Conflict:               {"conflict", http.StatusConflict, -32009, ExitConflict, "conflict"},
	Replay:                 {"replay", http.StatusConflict, -32010, ExitConflict, "replay"},
	Gap:                    {"gap", http.StatusConflict, -32011, ExitConflict, "gap"},
	Fork:                   {"fork", http.StatusConflict, -32012, ExitConflict, "fork"},
	BelowFloor:             {"floor", http.StatusConflict, -32013, ExitConflict, "signed no later than the floor"},
	Gone:                   {"gone", http.StatusGone, -32014, ExitRefused, "closed for good"},
	TooLarge:               {"too_large", http.StatusRequestEntityTooLarge, -32015, ExitUsage, "too large"},
	UnsupportedMedia:       {"unsupported_media_type", http.StatusUnsupportedMediaType, -32016, ExitUsage, "unsupported media type"},
	Misdirected:            {"misdirected", http.StatusMisdirectedRequest, -32017, ExitRefused, "not hosted here"},
	NotAccepting:           {"not_accepting", http.StatusLocked, -32018, ExitRefused, "not accepting calls"},
	ClockSkew:              {"clock", http.StatusBadRequest, -32019, ExitConflict, "the signed time is too far from the host's clock"},
	TooManyRequests:        {"too_many", http.StatusTooManyRequests, -32020, ExitRefused, "too many requests"},
	BehaviourFailed:        {"behaviour_failed", http.StatusInternalServerError, -32021, ExitFailed, "the vacant failed to answer"},
	Unavailable:            {"unavailable", http.StatusServiceUnavailable, -32022, ExitUnavailable, "storage or network unavailable"},
	DeadlineExceeded:       {"deadline", http.StatusGatewayTimeout, -32023, ExitUnavailable, "no answer in time"},
	Untrusted:              {"untrusted", http.StatusBadGateway, -32024, ExitUntrusted, "did not verify"},
	Damaged:                {"damaged", http.StatusInternalServerError, -32025, ExitFailed, "stored data is damaged"},
	Pending:                {"pending", http.StatusConflict, -32026, ExitPending, "not yet answered"},
	Canceled:               {"canceled", 499, -32027, ExitCanceled, "canceled"},
	InvalidMember:          {"schema", http.StatusUnprocessableEntity, -32602, ExitUsage, "a member of the request is wrong"},
	OutOfSequence:          {"sequence", http.StatusConflict, -32028, ExitConflict, "not the next event of this actor"},
	IdempotencyConflict:    {"idempotency_conflict", http.StatusConflict, -32029, ExitConflict, "the idempotency key was used for another request"},
	Equivocation:           {"equivocation", http.StatusConflict, -32030, ExitConflict, "two cards of one version"},
	Revoked:                {"revoked", http.StatusForbidden, -32031, ExitRefused, "the key was revoked"},
	ConsentRequired:        {"graduation_consent", http.StatusForbidden, -32032, ExitRefused, "parent and child have not both consented"},
	GraduationRateExceeded: {"graduation_rate_limit", http.StatusTooManyRequests, -32033, ExitRefused, "the parent has reached its limit of graduations in 24 hours"},
	CollusionFound:         {"graduation_collusion", http.StatusForbidden, -32034, ExitRefused, "the evidence shows that parent and child are not independent"},
	AlreadyGraduated:       {"graduated", http.StatusConflict, -32035, ExitConflict, "the child has already graduated"},
	TreeOnly:               {"tree_only", http.StatusForbidden, -32036, ExitRefused, "outside its tree"},

	SubstrateUnavailable:   {"substrate_unavailable", http.StatusInternalServerError, -32037, ExitUnavailable, "the vacant failed to answer: its agent is not available"},
	SubstrateMisconfigured: {"substrate_misconfigured", http.StatusInternalServerError, -32038, ExitFailed, "the vacant failed to answer: its agent is misconfigured"},
	SubstrateTooLarge:      {"substrate_too_large", http.StatusInternalServerError, -32039, ExitFailed, "the vacant failed to answer: its agent returned an answer that is too large"},
	SubstrateBusy:          {"substrate_busy", http.StatusInternalServerError, -32040, ExitUnavailable, "the vacant failed to answer: its agent is overloaded"},
	SubstrateRefused:       {"substrate_refused", http.StatusInternalServerError, -32041, ExitFailed, "the vacant failed to answer: its agent refused the request"},
	BudgetExceeded:         {"budget_exceeded", http.StatusInternalServerError, -32042, ExitFailed, "the vacant failed to answer: its budget is too small"},
	BudgetSpent:            {"budget_spent", http.StatusTooManyRequests, -32043, ExitRefused, "the vacant's daily budget is spent; try again after 00:00 UTC"},
	PriceAboveMax:          {"price_above_max", http.StatusPaymentRequired, -32044, ExitRefused, "a call costs more than the request allows"},
	SpendCapReached:        {"spend_cap_reached", http.StatusPaymentRequired, -32045, ExitRefused, "the day's cap is reached; try again after 00:00 UTC"},
	AccountSuspended:       {"account_suspended", http.StatusForbidden, -32046, ExitRefused, "the account is suspended"},
	TestKeyNotAllowed:      {"test_key", http.StatusForbidden, -32047, ExitRefused, "a test key can call only vacants of its own tenant, and read only what test keys have created"},
	ScopeRequired:          {"scope_required", http.StatusForbidden, -32048, ExitRefused, "the key lacks a scope"},
	QuotaReached:           {"quota_reached", http.StatusForbidden, -32049, ExitRefused, "the tenant has reached a quota"},
	NotAcceptable:          {"not_acceptable", http.StatusNotAcceptable, -32050, ExitUsage, "the client accepts no form of the answer"},
	PreconditionFailed:     {"precondition_failed", http.StatusPreconditionFailed, -32051, ExitConflict, "it was changed since it was read"},
	NoMatchingCall:         {"no_call", http.StatusConflict, -32052, ExitConflict, "the reviewer has no answered call that matches the review"},
	AlreadyReviewed:        {"reviewed", http.StatusConflict, -32053, ExitConflict, "the call has already been reviewed"},
	Ineligible:             {"ineligible", http.StatusForbidden, -32054, ExitRefused, "the reviewer may not review this vacant"},
	NoWorker:               {"no_worker", http.StatusInternalServerError, -32055, ExitUnavailable, "the vacant failed to answer: no worker is connected"},
}

func (k Kind) Forms() Forms { return formsByKind[k] }

// IsFailure reports whether k means that a vacant failed to answer a call after accepting it. It
// returns false for DeadlineExceeded, which can also mean that the answer is only late.
func (k Kind) IsFailure() bool {
	switch k {
	case BehaviourFailed, SubstrateUnavailable, SubstrateMisconfigured, SubstrateTooLarge, SubstrateBusy, SubstrateRefused, BudgetExceeded, NoWorker:
		return true
	}
	return false
}

func (k Kind) String() string { return formsByKind[k].Code }

func Kinds() []Kind {
	kinds := make([]Kind, 0, len(formsByKind))
	for k := Internal; int(k) < len(formsByKind); k++ {
		kinds = append(kinds, k)
	}
	return kinds
}

// Error is an error with a Kind. Detail, if set, is the exact message for clients, which the
// protocol may prescribe (PROTOCOL §6.2). Text returns the message for clients. Error returns the
// message for operators, which includes the cause.
type Error struct {
	Kind   Kind
	Detail string
	Field  string
	Want   string
	Got    string
	Err    error
}

func (e *Error) Text() string {
	switch {
	case e.Detail != "":
		return e.Detail
	case e.Field != "" && e.Got != "":
		return fmt.Sprintf("%s: expected %s, got %s", e.Field, e.Want, e.Got)
	case e.Field != "":
		return fmt.Sprintf("%s: expected %s", e.Field, e.Want)
	}
	return e.Kind.Forms().DefaultMessage
}

func (e *Error) Error() string {
	if cause := e.Cause(); cause != "" {
		return e.Text() + ": " + cause
	}
	return e.Text()
}

// Cause returns the cause in plain words, or "" if the kind already implies the cause.
func (e *Error) Cause() string {
	switch {
	case e.Err == nil:
		return ""
	case e.Kind == Canceled && e.Err == context.Canceled:
		return ""
	}
	if text := PlainMessage(e.Err); e.Kind != DeadlineExceeded || text != timedOutMessage {
		return text
	}
	return ""
}

func (e *Error) Unwrap() error { return e.Err }

func New(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Detail: fmt.Sprintf(format, args...)}
}

// Wrap returns an error of kind k with a cause that is logged but not sent to clients.
func Wrap(k Kind, err error, format string, args ...any) *Error {
	return &Error{Kind: k, Detail: fmt.Sprintf(format, args...), Err: err}
}

// WithPlace returns err as an error of kind k whose message starts with place, for example a path.
func WithPlace(k Kind, place string, err error) *Error {
	e := *AsError(err)
	e.Kind, e.Detail = k, place+": "+e.Text()
	return &e
}

// AtPath converts an error about a value to an error about the document that contains the value at
// path. NotJSON becomes Malformed, because the document itself is JSON.
func AtPath(path string, err error) *Error {
	e := *AsError(err)
	oldField := e.Field
	switch {
	case oldField == "" || oldField == "body":
		e.Field = path
	case path != "body":
		e.Field = path + "." + oldField
	}
	prefix, rest, hasPrefix := strings.Cut(e.Detail, ": ")
	switch {
	case e.Detail == "":
	case hasPrefix && (prefix == "body" || prefix == path): // redundant with path
		e.Detail = path + ": " + rest
	case hasPrefix && (oldField == prefix || strings.HasPrefix(oldField, prefix+".")):
		e.Detail = path + "." + prefix + ": " + rest
	default:
		e.Detail = path + ": " + e.Detail
	}
	if e.Kind == NotJSON {
		e.Kind = Malformed
	}
	return &e
}

func Invalid(field, want, got string) *Error {
	return &Error{Kind: Malformed, Field: field, Want: want, Got: got}
}

// AsError returns the first Error in err's chain, or an Internal error that wraps err.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: Internal, Err: err}
}

func Is(err error, k Kind) bool { return err != nil && AsError(err).Kind == k }
