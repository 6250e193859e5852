package a2a

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

type faultKind struct {
	rpcCode    int
	reason     string
	httpStatus int // in the HTTP+JSON binding 1.0.1
	grpcStatus string
}

// The errors of A2A 1.0 and JSON-RPC, with the codes of their specifications.
var (
	parseError                = faultKind{-32700, "PARSE_ERROR", http.StatusBadRequest, "INVALID_ARGUMENT"}
	invalidRequest            = faultKind{-32600, "INVALID_REQUEST", http.StatusBadRequest, "INVALID_ARGUMENT"}
	methodNotFound            = faultKind{-32601, "METHOD_NOT_FOUND", http.StatusNotFound, "UNIMPLEMENTED"}
	invalidParams             = faultKind{-32602, "INVALID_PARAMS", http.StatusBadRequest, "INVALID_ARGUMENT"}
	internalError             = faultKind{-32603, "INTERNAL_ERROR", http.StatusInternalServerError, "INTERNAL"}
	taskNotFound              = faultKind{-32001, "TASK_NOT_FOUND", http.StatusNotFound, "NOT_FOUND"}
	taskNotCancelable         = faultKind{-32002, "TASK_NOT_CANCELABLE", http.StatusBadRequest, "FAILED_PRECONDITION"}
	pushNotSupported          = faultKind{-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", http.StatusBadRequest, "FAILED_PRECONDITION"}
	unsupportedOperation      = faultKind{-32004, "UNSUPPORTED_OPERATION", http.StatusBadRequest, "FAILED_PRECONDITION"}
	contentTypeNotSupported   = faultKind{-32005, "CONTENT_TYPE_NOT_SUPPORTED", http.StatusBadRequest, "INVALID_ARGUMENT"}
	extendedCardNotConfigured = faultKind{-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", http.StatusBadRequest, "FAILED_PRECONDITION"}
	extensionRequired         = faultKind{-32008, "EXTENSION_SUPPORT_REQUIRED", http.StatusBadRequest, "FAILED_PRECONDITION"}
	versionNotSupported       = faultKind{-32009, "VERSION_NOT_SUPPORTED", http.StatusBadRequest, "FAILED_PRECONDITION"}

	taskBusy        = faultKind{-32004, "TASK_BUSY", http.StatusConflict, "FAILED_PRECONDITION"}
	notAccepting    = faultKind{-32004, "NOT_ACCEPTING", http.StatusLocked, "FAILED_PRECONDITION"}
	vacantGone      = faultKind{-32004, "GONE", http.StatusGone, "FAILED_PRECONDITION"}
	paymentRequired = faultKind{-32004, "PAYMENT_REQUIRED", http.StatusPaymentRequired, "FAILED_PRECONDITION"}
)

type fault struct {
	kind       faultKind
	message    string
	logVerdict string // verdict in the log; defaults to the kind's reason
	metadata   map[string]string
}

func (f *fault) Error() string { return f.message }

func newFault(kind faultKind, text string) *fault { return &fault{kind: kind, message: text} }

// faultOf returns the A2A error for an error of the host, or nil if A2A has no such error. If it
// returns nil, the caller must pass err to Exchange.Fail.
func faultOf(err error) *fault {
	var wrapped *fault
	var refusal *task.Refusal
	p := problem.AsError(err)
	f := &fault{kind: invalidParams, message: p.Text(), logVerdict: p.Kind.String()}
	switch {
	case errors.As(err, &wrapped):
		return wrapped
	case errors.Is(err, task.ErrNotFound): // refusals of messages to tasks may wrap this error
		return newFault(taskNotFound, task.ErrNotFound.Text())
	case errors.As(err, &refusal):
		f.metadata = refusalMetadata(&refusal.Outcome)
	case errors.Is(err, task.ErrNotCancelable):
		return newFault(taskNotCancelable, task.ErrNotCancelable.Text())
	}
	switch p.Kind {
	case problem.NotAccepting:
		f.kind = notAccepting
	case problem.Gone:
		f.kind = vacantGone
	case problem.PaymentRequired, problem.PriceAboveMax, problem.SpendCapReached:
		f.kind = paymentRequired
	case problem.Conflict:
		f.kind = taskBusy
	case problem.Replay, problem.Gap, problem.Fork, problem.BelowFloor:
		f.kind.reason, f.kind.httpStatus, f.kind.grpcStatus = strings.ToUpper(p.Kind.String()), http.StatusConflict, "ABORTED"
	case problem.ClockSkew:
		f.kind.reason = "CLOCK"
	case problem.Malformed, problem.NotJSON, problem.Usage, problem.InvalidMember, problem.NotAddressed:
	default:
		status := p.Kind.Forms().HTTPStatus
		if p.Kind != problem.DeadlineExceeded && status != http.StatusInternalServerError {
			return nil
		}
		f.kind = internalError
	}
	return f
}

// refusalMetadata returns the members that the refusal has in the host's own protocol (PROTOCOL
// §6).
func refusalMetadata(o *call.Outcome) map[string]string {
	m := map[string]string{"code": o.Problem.Kind.String()}
	if o.State != "" {
		m["state"] = string(o.State)
	}
	if o.HasChain {
		m["expected_seq"], m["chain_tip"] = strconv.FormatInt(o.ExpectedSeq, 10), o.ChainTip.String()
	}
	if !o.Floor.IsZero() {
		m["floor"] = canon.FormatTime(o.Floor)
	}
	if !o.RestoredAt.IsZero() {
		m["restored"] = canon.FormatTime(o.RestoredAt)
	}
	if o.Price != nil && o.PaymentOptions != nil {
		price, _ := json.Marshal(o.Price)
		pay, _ := json.Marshal(o.PaymentOptions)
		m["price"], m["pay"] = string(price), string(pay)
	}
	if !o.HostTime.IsZero() {
		m["now"] = canon.FormatTime(o.HostTime)
	}
	return m
}

// writeRefusal answers with an HTTP error. It adds the member "error", which A2A clients read.
func (r *request) writeRefusal(w http.ResponseWriter, err error) {
	p := problem.AsError(err)
	status := p.Kind.Forms().HTTPStatus
	reason, code := strings.ToUpper(p.Kind.String()), httpapi.RPCCode(p.Kind)
	if p.Kind == problem.UnsupportedMedia {
		reason, code = contentTypeNotSupported.reason, contentTypeNotSupported.rpcCode
	}
	var members map[string]string
	var refusal *task.Refusal
	if errors.As(err, &refusal) {
		members = refusalMetadata(&refusal.Outcome)
	}
	info := errorDetails(reason, members)
	if r.isREST() {
		httpapi.Fail(w, errorWithMembers{p, map[string]any{"error": restError{status, cmp.Or(grpcStatusNames[status], "INVALID_ARGUMENT"), p.Text(), info}}})
		return
	}
	m := httpapi.RPCRefusalOf(r.rpcID, p)
	m.Error.Code, m.Error.Data = code, info
	httpapi.Fail(w, errorWithMembers{p, m})
}

type errorWithMembers struct {
	error
	members any
}

func (e errorWithMembers) Members() any  { return e.members }
func (e errorWithMembers) Unwrap() error { return e.error }

type restError struct {
	Code    int         `json:"code"`
	Status  string      `json:"status"`
	Message string      `json:"message"`
	Details []errorInfo `json:"details"`
}

// grpcStatusNames maps HTTP statuses to gRPC names. Other statuses map to INVALID_ARGUMENT.
var grpcStatusNames = map[int]string{
	http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED", http.StatusNotFound: "NOT_FOUND",
	http.StatusMethodNotAllowed: "UNIMPLEMENTED", http.StatusConflict: "ABORTED", http.StatusTooManyRequests: "RESOURCE_EXHAUSTED",
	http.StatusInternalServerError: "INTERNAL", http.StatusServiceUnavailable: "UNAVAILABLE", http.StatusGatewayTimeout: "DEADLINE_EXCEEDED",
}

type errorInfo struct {
	Type     string            `json:"@type"`
	Reason   string            `json:"reason"`
	Domain   string            `json:"domain"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

func errorDetails(reason string, metadata map[string]string) []errorInfo {
	return []errorInfo{{"type.googleapis.com/google.rpc.ErrorInfo", reason, "a2a-protocol.org", metadata}}
}

func (f *fault) appendInfo(b []byte) []byte {
	info, _ := httpapi.Encode(errorDetails(f.kind.reason, f.metadata)) // strings always encode
	return append(b, bytes.TrimSpace(info)...)
}
