package dispatch

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// hostReply is a host's reply, parsed without trust: members that violate the protocol are treated
// as absent. The signed messages in a reply are verified later, by the code that uses them.
type hostReply struct {
	status int // zero if the answer comes from a file
	body   []byte

	isObject       bool // whether the body is one strict JSON object
	hasResult      bool // whether the body has a result, and so claims to be an answer
	detail, code   string
	cutReason      string   // reason why the answer is incomplete, or ""
	paymentOptions []string // ways to pay for a refused unpaid call
	state          string
	tooOld         bool
	resetConfirmed bool // whether a reset was confirmed

	storedAnswer []byte // signed message of a stored answer
	replySeq     int64  // sequence number and hash of an answer whose text key is destroyed
	replyHash    identity.Hash

	expectedSeq     int64 // zero if absent
	tip             *identity.Hash
	floor, hostTime time.Time
	due             time.Time // time by which a pending call will be decided
	restoredAt      time.Time // time of the vacant's last restore, in a refusal
}

// The states of a call (PROTOCOL §6).
const (
	statePending    = "pending"
	stateAnswered   = "answered"
	stateUnanswered = "unanswered"
	stateUnknown    = "unknown"
	stateTooOld     = "too_old"
)

// parseReply parses any body. If the body is not one strict JSON object, the reply has no members,
// and its detail is the beginning of the body.
func parseReply(status int, body []byte) hostReply {
	reply := hostReply{status: status, body: body, isObject: true}
	d := canon.NewDecoder(body, canon.AnswerLimits())
	if err := d.Document(func(key string) error { return reply.decodeMember(d, key) }); err != nil {
		return hostReply{status: status, body: body, detail: string(body[:min(len(body), 2*maxQuotedBytes)])}
	}
	if reply.state == stateTooOld {
		reply.state, reply.tooOld = stateUnknown, true
	}
	return reply
}

func (a *hostReply) decodeMember(d *canon.Decoder, key string) (err error) {
	switch key {
	case "result":
		if a.hasResult = true; d.Kind() != canon.Object {
			return d.Skip()
		}
		err = d.Object(func(key string) error {
			if key != "cut" {
				return d.Skip()
			}
			return a.decodeMember(d, key)
		})
	case "cut":
		a.cutReason, err = decodeOptional(d, canon.String, d.String)
	case "detail", "error":
		var s string
		if s, err = decodeOptional(d, canon.String, d.String); s != "" {
			a.detail = s
		}
	case "pay":
		if d.Kind() != canon.Array {
			return d.Skip()
		}
		err = d.Array(func(int) error {
			if d.Kind() != canon.Object {
				return d.Skip()
			}
			return d.Object(func(key string) error {
				if key != "way" {
					return d.Skip()
				}
				way, err := decodeOptional(d, canon.String, d.String)
				if way != "" {
					a.paymentOptions = append(a.paymentOptions, way)
				}
				return err
			})
		})
	case "code":
		a.code, err = decodeOptional(d, canon.String, d.String)
	case "state":
		a.state, err = decodeOptional(d, canon.String, d.String)
	case "too_old":
		a.tooOld, err = decodeOptional(d, canon.Bool, d.Bool)
	case "ok":
		a.resetConfirmed, err = decodeOptional(d, canon.Bool, d.Bool)
	case "reply":
		a.storedAnswer, err = decodeOptional(d, canon.Object, d.Raw)
	case "reply_seq":
		a.replySeq, err = decodeOptional(d, canon.Int, d.Int64)
	case "reply_hash":
		a.replyHash, _, err = decodeLaxHash(d)
	case "expected_seq":
		a.expectedSeq, err = decodeOptional(d, canon.Int, d.Int64)
	case "chain_tip":
		var h identity.Hash
		var ok bool
		if h, ok, err = decodeLaxHash(d); ok {
			a.tip = &h
		}
	case "floor":
		a.floor, err = decodeLaxTime(d)
	case "due":
		a.due, err = decodeLaxTime(d)
	case "now":
		a.hostTime, err = decodeLaxTime(d)
	case "restored":
		a.restoredAt, err = decodeLaxTime(d)
	default:
		err = d.Skip()
	}
	return err
}

func decodeOptional[T any](d *canon.Decoder, k canon.Kind, decode func() (T, error)) (T, error) {
	var zero T
	if d.Kind() == k { // skip values of other kinds
		if v, err := decode(); err == nil {
			return v, nil
		}
	}
	return zero, d.Skip()
}

func decodeLaxHash(d *canon.Decoder) (identity.Hash, bool, error) {
	s, err := decodeOptional(d, canon.String, d.String)
	h, parseErr := identity.ParseHash(s)
	return h, parseErr == nil, err
}

func decodeLaxTime(d *canon.Decoder) (time.Time, error) {
	s, err := decodeOptional(d, canon.String, d.String)
	t, parseErr := canon.ParseTime(s)
	if parseErr != nil {
		return time.Time{}, err
	}
	return t, err
}

func (a hostReply) hasMembers() bool {
	// The reference sends only a detail, without these members of PROTOCOL §6.
	return a.state != "" || a.tip != nil || a.expectedSeq > 0 || a.code != ""
}

// hasTip reports whether the chain still ends with the envelope with sequence number seq and hash
// h. If the host does not report its tip, hasTip assumes that the chain has not moved.
func (a hostReply) hasTip(seq int64, h identity.Hash) bool {
	return (a.tip == nil || *a.tip == h) && (a.expectedSeq == 0 || a.expectedSeq == seq+1)
}

// isConflict reports whether the chain refused the envelope. If the status is unknown, isConflict
// uses the code and the texts of the reference's refusals (PROTOCOL §6.2).
func (a hostReply) isConflict() bool {
	if a.status != 0 {
		return a.status == 409
	}
	switch a.code {
	case problem.Replay.String(), problem.Gap.String(), problem.Fork.String(), problem.BelowFloor.String():
		return true
	}
	for _, text := range []string{"non-monotonic", "prev_envelope_hash mismatch", "replay/out-of-order", "replay/race"} {
		if strings.Contains(a.detail, text) {
			return true
		}
	}
	return false
}

func (a hostReply) isBelowFloor() bool {
	return a.isConflict() && !a.floor.IsZero() && (a.code == problem.BelowFloor.String() || a.code == "" && strings.Contains(a.detail, "<= floor"))
}

// isSeqTaken reports whether a reference host has already accepted an envelope with sequence number
// seq. The only sign of this is that the last sequence number in the host's refusal is seq
// (PROTOCOL §23 A5).
func (a hostReply) isSeqTaken(seq int64) bool {
	return a.isConflict() && !a.hasMembers() &&
		strings.Contains(a.detail, fmt.Sprintf("replay/out-of-order envelope: seq %d <= last_seen %d", seq, seq))
}

// isInconclusive reports whether the host failed without reporting the fate of the envelope. The
// same bytes must then be sent again.
func (a hostReply) isInconclusive() bool {
	status := a.status
	if status == 0 {
		for _, k := range problem.Kinds() {
			if a.code == k.String() {
				status = k.Forms().HTTPStatus
			}
		}
	}
	if status == 409 && !a.isObject {
		return true // not from the host itself; a proxy's page must not cause a reset
	}
	return a.state == "" && !a.hasResult && (status >= 500 && status != 501 || status == 408 || status == 425)
}

func (a hostReply) isRouteMissing() bool {
	// The reference has no ask route, and its smallest server has no reset route.
	return a.state == "" && a.code != problem.Misdirected.String() && (a.status == 404 || a.status == 405 || a.status == 501)
}

// kindOf returns the kind of a refusal. It is the kind of the host's code if it matches the status,
// and otherwise a kind with this status.
func kindOf(reply hostReply) problem.Kind {
	byStatus := problem.Unavailable
	found := false
	for _, k := range problem.Kinds() {
		row := k.Forms()
		if row.Code == reply.code && (reply.status == 0 || row.HTTPStatus == reply.status) {
			return kindForCaller(k)
		}
		if !found && row.HTTPStatus == reply.status && k != problem.Usage {
			byStatus, found = k, true
		}
	}
	switch {
	case reply.status == 0 || found:
	case reply.status >= 300 && reply.status < 500:
		byStatus = problem.Forbidden
	}
	return kindForCaller(byStatus)
}

func kindForCaller(k problem.Kind) problem.Kind {
	switch k {
	case problem.Internal, problem.Damaged, problem.Untrusted: // the host's own failures, not the caller's
		return problem.BehaviourFailed
	case problem.Malformed, problem.NotJSON, problem.Usage, problem.UnsupportedMedia, problem.MethodNotAllowed, problem.Canceled, problem.Pending:
		return problem.Forbidden
	}
	return k
}

// maxQuotedBytes limits how much of a host's text is quoted in an error.
const maxQuotedBytes = 300

func (a hostReply) safeDetail() string {
	s := strings.ToValidUTF8(a.detail, "?") // the result must be safe for a terminal
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if s == "" {
		return "no reason given"
	}
	for i := range s {
		if i >= maxQuotedBytes {
			return s[:i] + "…"
		}
	}
	if !utf8.ValidString(s) {
		return "unreadable reason"
	}
	return s
}
