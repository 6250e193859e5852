package graduation

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// KindAttempts is the kind of the stream of a child's attempts.
const KindAttempts = "grad"

// Stream is the stream of child's attempts.
func Stream(child identity.ID) store.Stream { return store.StreamOf(KindAttempts, child) }

// ID names an attempt, in paths and for people.
type ID struct {
	Child    identity.ID
	Position uint64
}

// String is <child in hex>-<position>.
func (id ID) String() string { return id.Child.String() + "-" + strconv.FormatUint(id.Position, 10) }

// ParseID parses the output of String, strictly. The error is of kind NotFound,
// because a malformed id names no attempt.
func ParseID(text string) (ID, error) {
	none := problem.New(problem.NotFound, "graduation %.80q is not known", text)
	child, position, ok := strings.Cut(text, "-")
	if !ok {
		return ID{}, none
	}
	var id ID
	var err error
	if id.Child, err = identity.ParseID(child); err != nil {
		return ID{}, none
	}
	if id.Position, err = strconv.ParseUint(position, 10, 63); err != nil || id.Position == 0 || id.String() != text {
		return ID{}, none
	}
	return id, nil
}

// Attempt is one attempt of a child to pass the gate. It never changes.
type Attempt struct {
	ID
	Submission
	Policy gate.Policy // the policy when it began
	Began  time.Time
	Due    time.Time // nothing is committed from then on
}

// Execution is the name of the attempt's run in a state machine. A name cannot
// be reused for 90 days, and a refused request may be sent again, so the
// position is part of it.
func (a *Attempt) Execution() string {
	return a.Request.Hash().String()[:32] + "-" + strconv.FormatUint(a.Position, 10)
}

// State is the input of the first step.
func (a *Attempt) State() State {
	return State{Child: a.Child, Position: a.Position, Request: a.Request.Hash()}
}

type storedAttempt struct {
	Submission json.RawMessage `json:"submission"`
	Policy     gate.Policy     `json:"policy"`
	Began      int64           `json:"began"` // Unix microseconds, as all times here
	Due        int64           `json:"due"`
}

func (a *Attempt) encode() ([]byte, error) {
	submission, err := a.Submission.Blob()
	if err != nil {
		return nil, err
	}
	return attempts.Encode(storedAttempt{submission, a.Policy, a.Began.UnixMicro(), a.Due.UnixMicro()})
}

// DecodeAttempt reads a row of child's attempts. The error is of kind Damaged
// if it is unreadable. Signatures are not verified.
func DecodeAttempt(child identity.ID, row store.Row) (Attempt, error) {
	a := Attempt{ID: ID{child, row.Position}}
	s, err := attempts.Decode(store.Doc{Data: row.Data})
	if err == nil {
		a.Submission, err = ParseSubmission(s.Submission)
	}
	if err == nil {
		err = s.Policy.Check()
	}
	a.Policy = s.Policy
	a.Began, a.Due = time.UnixMicro(s.Began).UTC(), time.UnixMicro(s.Due).UTC()
	switch {
	case err != nil:
	case a.Request.ChildID != child:
		err = problem.New(problem.Damaged, "it belongs to %s", a.Request.ChildID.Short())
	case !a.Due.After(a.Began):
		err = problem.New(problem.Damaged, "it is due before it began")
	}
	if err != nil {
		return Attempt{}, problem.Wrap(problem.Damaged, err, "graduation %s is not readable: %s", a.ID, problem.Of(err).Text())
	}
	return a, nil
}

// encode writes JSON without escaping, so signed parts keep their bytes.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, problem.Wrap(problem.Internal, err, "a graduation cannot be written")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
