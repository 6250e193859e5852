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

// answer is a host's reply, parsed without trust: a member that does not fit
// the protocol is treated as absent. Only replies are signed; they are verified
// where they are used.
type answer struct {
	status int // zero if unknown, because the answer comes from a file
	body   []byte

	object       bool // the body is one strict JSON object
	result       bool // it has a result, so it claims to be an answer
	detail, code string
	cut          string   // why the answer is only a part
	pay          []string // ways to pay, of a call that was not paid for
	state        string
	tooOld       bool
	ok           bool // of a reset

	reply     []byte // result.message of a stored answer
	replySeq  int64  // all that is left of a reply whose text is gone
	replyHash identity.Hash

	expected   int64 // zero if not given
	tip        *identity.Hash
	floor, now time.Time
	due        time.Time // of a pending call: when it is decided at the latest
	restored   time.Time // of a refusal: when the vacant came back from a backup
}

// States (PROTOCOL §6).
const (
	statePending    = "pending"
	stateAnswered   = "answered"
	stateUnanswered = "unanswered"
	stateUnknown    = "unknown"
	stateTooOld     = "too_old"
)

// readAnswer parses a body of any kind. A body that is not one strict JSON
// object has no members, but its text is kept for a person.
func readAnswer(status int, body []byte) answer {
	a := answer{status: status, body: body, object: true}
	d := canon.NewDecoder(body, canon.AnswerLimits())
	if err := d.Document(func(key string) error { return a.member(d, key) }); err != nil {
		return answer{status: status, body: body, detail: string(body[:min(len(body), 2*shownBytes)])}
	}
	if a.state == stateTooOld {
		a.state, a.tooOld = stateUnknown, true
	}
	return a
}

func (a *answer) member(d *canon.Decoder, key string) (err error) {
	switch key {
	case "result":
		if a.result = true; d.Kind() != canon.Object {
			return d.Skip()
		}
		err = d.Object(func(key string) error {
			if key != "cut" {
				return d.Skip()
			}
			return a.member(d, key)
		})
	case "cut":
		a.cut, err = lax(d, canon.String, d.String)
	case "detail", "error":
		var s string
		if s, err = lax(d, canon.String, d.String); s != "" {
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
				way, err := lax(d, canon.String, d.String)
				if way != "" {
					a.pay = append(a.pay, way)
				}
				return err
			})
		})
	case "code":
		a.code, err = lax(d, canon.String, d.String)
	case "state":
		a.state, err = lax(d, canon.String, d.String)
	case "too_old":
		a.tooOld, err = lax(d, canon.Bool, d.Bool)
	case "ok":
		a.ok, err = lax(d, canon.Bool, d.Bool)
	case "reply":
		a.reply, err = lax(d, canon.Object, d.Raw)
	case "reply_seq":
		a.replySeq, err = lax(d, canon.Int, d.Int64)
	case "reply_hash":
		a.replyHash, _, err = laxHash(d)
	case "expected_seq":
		a.expected, err = lax(d, canon.Int, d.Int64)
	case "chain_tip":
		var h identity.Hash
		var ok bool
		if h, ok, err = laxHash(d); ok {
			a.tip = &h
		}
	case "floor":
		a.floor, err = laxTime(d)
	case "due":
		a.due, err = laxTime(d)
	case "now":
		a.now, err = laxTime(d)
	case "restored":
		a.restored, err = laxTime(d)
	default:
		err = d.Skip()
	}
	return err
}

// lax reads a value of kind k with read, and skips values of other kinds.
func lax[T any](d *canon.Decoder, k canon.Kind, read func() (T, error)) (T, error) {
	var none T
	if d.Kind() == k {
		if v, err := read(); err == nil {
			return v, nil
		}
	}
	return none, d.Skip()
}

func laxHash(d *canon.Decoder) (identity.Hash, bool, error) {
	s, err := lax(d, canon.String, d.String)
	h, herr := identity.ParseHash(s)
	return h, herr == nil, err
}

func laxTime(d *canon.Decoder) (time.Time, error) {
	s, err := lax(d, canon.String, d.String)
	t, terr := canon.ParseTime(s)
	if terr != nil {
		return time.Time{}, err
	}
	return t, err
}

// hasMembers reports whether the host sends the members of PROTOCOL §6. The
// reference sends only a detail.
func (a answer) hasMembers() bool {
	return a.state != "" || a.tip != nil || a.expected > 0 || a.code != ""
}

// current reports whether the chain still ends with envelope seq of hash h, so
// nobody else has moved it. A host that does not say is assumed to agree.
func (a answer) current(seq int64, h identity.Hash) bool {
	return (a.tip == nil || *a.tip == h) && (a.expected == 0 || a.expected == seq+1)
}

// conflict reports a refusal by the chain. The texts are the reference's; its
// own grow loop matches them too (PROTOCOL §6.2).
func (a answer) conflict() bool {
	if a.status != 0 {
		return a.status == 409
	}
	switch a.code {
	case problem.Replay.String(), problem.Gap.String(), problem.Fork.String(), problem.Floor.String():
		return true
	}
	for _, text := range []string{"non-monotonic", "prev_envelope_hash mismatch", "replay/out-of-order", "replay/race"} {
		if strings.Contains(a.detail, text) {
			return true
		}
	}
	return false
}

// belowFloor reports a refusal because the signed time is not after the floor.
func (a answer) belowFloor() bool {
	return a.conflict() && !a.floor.IsZero() && (a.code == problem.Floor.String() || a.code == "" && strings.Contains(a.detail, "<= floor"))
}

// wasTaken detects that an envelope was accepted before, by the reference's
// only sign: the last number it has seen is the envelope's own (PROTOCOL §23
// A5).
func (a answer) wasTaken(seq int64) bool {
	return a.conflict() && !a.hasMembers() &&
		strings.Contains(a.detail, fmt.Sprintf("replay/out-of-order envelope: seq %d <= last_seen %d", seq, seq))
}

// inconclusive reports that the same bytes must be sent again: the host failed
// without telling their fate.
func (a answer) inconclusive() bool {
	status := a.status
	if status == 0 {
		for _, k := range problem.Kinds() {
			if a.code == k.String() {
				status = k.Row().Status
			}
		}
	}
	if status == 409 && !a.object {
		return true // not from the host itself: no chain is reset because of a proxy's page
	}
	return a.state == "" && !a.result && (status >= 500 && status != 501 || status == 408 || status == 425)
}

// noEndpoint reports that the host lacks the route: the reference has no ask,
// and its smallest server no reset.
func (a answer) noEndpoint() bool {
	return a.state == "" && a.code != problem.Misdirected.String() && (a.status == 404 || a.status == 405 || a.status == 501)
}

// kindOf is the kind of a refusal: the code that the host names, if it fits the
// status, else the meaning of the status.
func kindOf(a answer) problem.Kind {
	byStatus := problem.Unavailable
	found := false
	for _, k := range problem.Kinds() {
		row := k.Row()
		if row.Code == a.code && (a.status == 0 || row.Status == a.status) {
			return refusalKind(k)
		}
		if !found && row.Status == a.status && k != problem.Usage {
			byStatus, found = k, true
		}
	}
	switch {
	case a.status == 0 || found:
	case a.status >= 300 && a.status < 500:
		byStatus = problem.Forbidden
	}
	return refusalKind(byStatus)
}

// refusalKind maps a host's kind to its meaning for the caller: an internal
// error of the host is not ours, and a request that it calls malformed was
// refused.
func refusalKind(k problem.Kind) problem.Kind {
	switch k {
	case problem.Internal, problem.Damaged, problem.Untrusted:
		return problem.BehaviourFailed
	case problem.Malformed, problem.NotJSON, problem.Usage, problem.UnsupportedMedia, problem.MethodNotAllowed, problem.Canceled, problem.Pending:
		return problem.Forbidden
	}
	return k
}

// shownBytes bounds how much of a host's text an error contains.
const shownBytes = 300

// shown is the host's text, made safe for a terminal.
func (a answer) shown() string {
	s := strings.ToValidUTF8(a.detail, "?")
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
		if i >= shownBytes {
			return s[:i] + "…"
		}
	}
	if !utf8.ValidString(s) {
		return "unreadable reason"
	}
	return s
}
