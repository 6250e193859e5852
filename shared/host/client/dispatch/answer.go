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

// hostReply is the parsed reply of an untrusted host. Malformed members are treated as absent, and
// signatures are not verified yet.
type hostReply struct {
	status int
	body   []byte

	isObject       bool
	hasResult      bool
	detail, code   string
	cutReason      string
	paymentOptions []string
	state          string
	tooOld         bool
	resetConfirmed bool

	storedAnswer []byte
	replySeq     int64
	replyHash    identity.Hash

	expectedSeq     int64
	tip             *identity.Hash
	floor, hostTime time.Time
	due             time.Time
	restoredAt      time.Time
}

const (
	statePending    = "pending"
	stateAnswered   = "answered"
	stateUnanswered = "unanswered"
	stateUnknown    = "unknown"
	stateTooOld     = "too_old"
)

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
	if d.Kind() == k {
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

func (a hostReply) hasExtensionMembers() bool {
	// Hosts of the reference do not send these members (PROTOCOL §6).
	return a.state != "" || a.tip != nil || a.expectedSeq > 0 || a.code != ""
}

// hasTip reports whether the chain ends with the given envelope, as far as the host reports.
func (a hostReply) hasTip(seq int64, h identity.Hash) bool {
	return (a.tip == nil || *a.tip == h) && (a.expectedSeq == 0 || a.expectedSeq == seq+1)
}

// isConflict reports whether the envelope does not fit the chain (PROTOCOL §6.2).
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
// seq. The error message is the only sign (PROTOCOL §23 A5).
func (a hostReply) isSeqTaken(seq int64) bool {
	return a.isConflict() && !a.hasExtensionMembers() &&
		strings.Contains(a.detail, fmt.Sprintf("replay/out-of-order envelope: seq %d <= last_seen %d", seq, seq))
}

// isInconclusive reports whether the host did not report the fate of the envelope.
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
		return true // a proxy's page must not cause a reset
	}
	return a.state == "" && !a.hasResult && (status >= 500 && status != 501 || status == 408 || status == 425)
}

func (a hostReply) isRouteMissing() bool {
	return a.state == "" && a.code != problem.Misdirected.String() && (a.status == 404 || a.status == 405 || a.status == 501)
}

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
	case problem.Internal, problem.Damaged, problem.Untrusted:
		return problem.BehaviourFailed
	case problem.Malformed, problem.NotJSON, problem.Usage, problem.UnsupportedMedia, problem.MethodNotAllowed, problem.Canceled, problem.Pending:
		return problem.Forbidden
	}
	return k
}

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
