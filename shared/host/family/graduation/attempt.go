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

const KindAttempts = "grad"

func Stream(child identity.ID) store.Stream { return store.StreamOf(KindAttempts, child) }

type ID struct {
	Child    identity.ID
	Position uint64
}

func (id ID) String() string { return id.Child.String() + "-" + strconv.FormatUint(id.Position, 10) }

// ParseID parses the result of String. The error is of kind NotFound.
func ParseID(text string) (ID, error) {
	notFound := problem.New(problem.NotFound, "graduation %.80q is not known", text)
	child, position, ok := strings.Cut(text, "-")
	if !ok {
		return ID{}, notFound
	}
	var id ID
	var err error
	if id.Child, err = identity.ParseID(child); err != nil {
		return ID{}, notFound
	}
	if id.Position, err = strconv.ParseUint(position, 10, 63); err != nil || id.Position == 0 || id.String() != text {
		return ID{}, notFound
	}
	return id, nil
}

// Attempt is an immutable attempt of a child to pass the gate.
type Attempt struct {
	ID
	Submission
	Policy    gate.Policy // at the start of the attempt
	StartedAt time.Time
	DueAt     time.Time // deadline for the commit
}

// ExecutionName returns the name of the attempt's run in a state machine. It contains the position,
// because AWS Step Functions rejects a name that was used within the last 90 days.
func (a *Attempt) ExecutionName() string {
	return a.Request.Hash().String()[:32] + "-" + strconv.FormatUint(a.Position, 10)
}

func (a *Attempt) InitialState() RunState {
	return RunState{Child: a.Child, Position: a.Position, RequestHash: a.Request.Hash()}
}

type storedAttempt struct {
	Submission json.RawMessage `json:"submission"`
	Policy     gate.Policy     `json:"policy"`
	// Times are in Unix microseconds.
	StartedAt int64 `json:"began"`
	DueAt     int64 `json:"due"`
}

func (a *Attempt) encode() ([]byte, error) {
	submission, err := a.Submission.Blob()
	if err != nil {
		return nil, err
	}
	return attemptCodec.Encode(storedAttempt{submission, a.Policy, a.StartedAt.UnixMicro(), a.DueAt.UnixMicro()})
}

// DecodeAttempt decodes a row without verifying signatures.
func DecodeAttempt(child identity.ID, row store.Row) (Attempt, error) {
	a := Attempt{ID: ID{child, row.Position}}
	s, err := attemptCodec.Decode(store.Doc{Data: row.Data})
	if err == nil {
		a.Submission, err = ParseSubmission(s.Submission)
	}
	if err == nil {
		err = s.Policy.Check()
	}
	a.Policy = s.Policy
	a.StartedAt, a.DueAt = time.UnixMicro(s.StartedAt).UTC(), time.UnixMicro(s.DueAt).UTC()
	switch {
	case err != nil:
	case a.Request.ChildID != child:
		err = problem.New(problem.Damaged, "it belongs to %s", a.Request.ChildID.Short())
	case !a.DueAt.After(a.StartedAt):
		err = problem.New(problem.Damaged, "it is due before it began")
	}
	if err != nil {
		return Attempt{}, problem.Wrap(problem.Damaged, err, "graduation %s is not readable: %s", a.ID, problem.AsError(err).Text())
	}
	return a, nil
}

func encodeJSON(v any) ([]byte, error) {
	// HTML escaping would change the bytes of signed parts.
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, problem.Wrap(problem.Internal, err, "a graduation cannot be written")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
