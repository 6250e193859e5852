package task

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Ref identifies a task. The task can only be found with its Owner.
type Ref struct {
	Vacant identity.ID
	Owner  call.Owner
	ID     string
}

func (r Ref) partition() string { return r.headKey().Partition }

func (r Ref) headKey() store.Key { return HeadDocs.Key(r.encode()) }

func (r Ref) eventKey(n int) store.Key { return EventDocs.Key(r.encode(), fmt.Sprintf("%06d", n)) }

func newestFirstKey(timestamp time.Time) string {
	return fmt.Sprintf("%016x", uint64(1<<63-1-timestamp.UnixMicro()))
}

// sealFormat is the first byte of a sealed text. The day of the key and the encrypted text follow.
const sealFormat = 1

// head is the stored state of a task without its events. It contains no text.
type head struct {
	State      State       `json:"state"`
	StartedAt  time.Time   `json:"began"`
	StatusTime time.Time   `json:"changed"` // time at which the status began
	Caller     identity.ID `json:"caller"`
	Position   uint64      `json:"position"` // position of the turn's request row, the stored record of its call
	// LeaseEnd is the time at which the turn's runner is considered dead, unless it renews the lease.
	// LeaseEnd is zero if no runner has the turn.
	LeaseEnd   time.Time `json:"lease,omitzero"`
	Runner     string    `json:"runner,omitempty"`     // id of the runner that holds the lease
	Background bool      `json:"background,omitempty"` // the turn counts towards MaxBackground
	Sender     Sender    `json:"sender,omitempty"`     // sender of a background turn
	Shares     []string  `json:"shares,omitempty"`     // keys of the shares (Share) that count the running turn
	EventCount int       `json:"events"`               // number of events when the head was written; more may exist
	// HasLatePush is true if a push configuration was added after the end of the task. Configurations
	// that are added later get no delivery (AddPushConfig).
	HasLatePush bool       `json:"end_told,omitempty"`
	EventBytes  int        `json:"bytes,omitempty"` // stored size of the first EventCount events; zero if unknown
	ContextHash string     `json:"context"`         // hash of the context id, for filters
	ListOwner   call.Owner `json:"list,omitzero"`   // owner in the index of tasks; zero if the task is not listed
	// Dispatch contains the settings of a dispatched task. It is nil for other tasks. While the
	// Position of a dispatched task is zero, the call of its first turn is not accepted yet.
	Dispatch *Dispatch `json:"dispatch,omitempty"`
}

func hashContextID(contextID string) string {
	// The context id is a caller's text, so it is not stored in clear.
	sum := sha256.Sum256([]byte(contextID))
	return hex.EncodeToString(sum[:8])
}

func (h *head) newPut(r Ref, version uint64, id store.WriteID) (store.Put, error) {
	b, err := HeadDocs.Encode(*h)
	if err != nil {
		return store.Put{}, problem.Wrap(problem.Internal, err, "task %s", r.ID)
	}
	p := store.Put{Key: r.headKey(), IfVersion: version, WriteID: id, Data: b, Expires: h.expires()}
	if !h.ListOwner.IsZero() {
		p.Index = HeadDocs.IndexKey(newestFirstKey(h.StatusTime)+"#"+r.ID, r.Vacant.String(), h.ListOwner.String())
	}
	return p, nil
}

// Lifetimes of tasks.
const (
	// Retention is the time during which a task is retained after its end.
	Retention = 24 * time.Hour
	// MaxAge is the age at which an unfinished task fails.
	MaxAge = 24 * time.Hour
)

func (h *head) expires() time.Time {
	end := h.StartedAt.Add(MaxAge)
	if h.State.IsTerminal() {
		end = h.StatusTime
	}
	return end.Add(Retention).UTC().Truncate(time.Second)
}

// isAbandoned reports whether an unfinished task must fail, because it is too old or overdue, or
// because its runner has died or no worker began its turn in time.
func (h *head) isAbandoned(now time.Time) bool {
	switch {
	case h.State.IsTerminal():
		return false
	case now.Sub(h.StartedAt) > MaxAge, h.isOverdue(now):
		return true
	case h.isUnaccepted():
		return false
	case h.State == Submitted:
		return now.Sub(h.StatusTime) > call.MaxQueued
	}
	return h.State == Working && now.After(h.LeaseEnd)
}

func (h *head) isOverdue(now time.Time) bool {
	return h.Dispatch != nil && !now.Before(h.Dispatch.Deadline)
}

func (h *head) isUnaccepted() bool {
	return h.Dispatch != nil && h.State == Submitted && h.Position == 0
}

// storedEvent is an event before it is sealed. If the message of a status repeats the text of the
// answer, the text is omitted, because the artifact contains it. OmitsText is then true.
type storedEvent struct {
	Event
	OmitsText bool `json:"repeats,omitempty"`
	// Void reports that the turn ended without an answer, so the artifacts of the turn are
	// withdrawn. It is set only together with Status.
	Void bool `json:"void,omitempty"`
	// Usage is the turn's usage so far. It is stored with each piece of the answer, and in a
	// separate event when the agent begins to use tools or asks its model again.
	Usage *call.Usage `json:"used,omitempty"`
	// Credential is the credential of the request that began a turn of a worker. It is stored with the
	// message of the turn. It is nil in turns that earlier versions of the program stored. The calls
	// of such a turn have no limits, because a credential contains the limits.
	Credential *call.Credential `json:"by,omitempty"`
}

func (e *Engine) seal(ctx context.Context, k store.Key, plaintext []byte) ([]byte, error) {
	s, err := e.Texts.Seal(ctx, []byte(k.String()), plaintext)
	if err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "the task cannot be sealed now")
	}
	return append(binary.BigEndian.AppendUint32([]byte{sealFormat}, s.Day), s.Box...), nil
}

// openDoc decrypts the result of seal. If the key of the day was destroyed, the error is
// textkeys.ErrDestroyed.
func (e *Engine) openDoc(ctx context.Context, d store.Doc) ([]byte, error) {
	if len(d.Data) < 5 || d.Data[0] != sealFormat {
		return nil, problem.New(problem.Damaged, "%s does not decode", d.Key)
	}
	plaintext, err := e.Texts.Open(ctx, []byte(d.Key.String()), textkeys.Sealed{Day: binary.BigEndian.Uint32(d.Data[1:5]), Box: d.Data[5:]})
	switch {
	case errors.Is(err, textkeys.ErrDestroyed):
		return nil, err
	case errors.Is(err, store.ErrUnavailable), problem.Is(err, problem.Unavailable):
		return nil, problem.Wrap(problem.Unavailable, err, "storage is unavailable; send the same request again")
	case err != nil:
		return nil, problem.Wrap(problem.Damaged, err, "%s does not open", d.Key)
	}
	return plaintext, nil
}

func encodeEvent(event storedEvent) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(event)
	return b.Bytes(), err
}

func (e *Engine) openEvent(ctx context.Context, d store.Doc) (event storedEvent, err error) {
	plaintext, err := e.openDoc(ctx, d)
	if err != nil {
		return event, err
	}
	if err := json.Unmarshal(plaintext, &event); err != nil {
		return event, problem.Wrap(problem.Damaged, err, "event %s does not decode", d.Key)
	}
	return event, nil
}

func eventNumber(k store.Key) (int, bool) {
	parts, ok := EventDocs.Parts(k)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(parts[1])
	return n, err == nil
}

func omitRepeatedText(e Event, answer string) storedEvent {
	s := storedEvent{Event: e}
	status := e.Status
	if e.Task != nil {
		status = &e.Task.Status
	}
	if status == nil || status.Message == nil || len(status.Message.Parts) != 1 || !status.Message.Parts[0].isPlainText() || status.Message.Parts[0].Text != answer || answer == "" {
		return s
	}
	m := *status.Message
	m.Parts = nil
	shortened := *status
	shortened.Message = &m
	if s.OmitsText = true; e.Task != nil {
		t := *e.Task
		t.Status = shortened
		s.Task = &t
	} else {
		s.Status = &shortened
	}
	return s
}

func restoreRepeatedText(t *Task, s *storedEvent) {
	if !s.OmitsText {
		return
	}
	for _, a := range t.Artifacts {
		if a.ID == ResponseArtifact {
			m := *t.Status.Message
			m.Parts = a.Parts
			t.Status.Message = &m
		}
	}
	if s.Status != nil {
		s.Status = &t.Status
	}
}
