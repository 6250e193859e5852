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

// head is the stored state of a task. It contains no text.
type head struct {
	State      State       `json:"state"`
	StartedAt  time.Time   `json:"began"`
	StatusTime time.Time   `json:"changed"`
	Caller     identity.ID `json:"caller"`
	Position   uint64      `json:"position"` // position of the turn's request row
	// At LeaseEnd, the runner is considered dead.
	LeaseEnd    time.Time  `json:"lease,omitzero"`
	Runner      string     `json:"runner,omitempty"`     // holder of the lease
	Background  bool       `json:"background,omitempty"` // counts towards MaxBackground
	Sender      Sender     `json:"sender,omitempty"`
	Shares      []string   `json:"shares,omitempty"` // keys of the shares that count the turn
	EventCount  int        `json:"events"`           // more events may be stored
	HasLatePush bool       `json:"end_told,omitempty"`
	EventBytes  int        `json:"bytes,omitempty"` // zero if unknown
	ContextHash string     `json:"context"`
	ListOwner   call.Owner `json:"list,omitzero"` // zero if the task is not listed
	Dispatch    *Dispatch  `json:"dispatch,omitempty"`
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

const (
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

func (h *head) isAbandoned(now time.Time) bool {
	switch {
	case h.State.IsTerminal():
		return false
	case now.Sub(h.StartedAt) > MaxAge, h.isOverdue(now):
		return true
	case h.isUnaccepted():
		return false
	case h.State == Submitted:
		return now.Sub(h.StatusTime) > call.MaxQueueDuration
	}
	return h.State == Working && now.After(h.LeaseEnd)
}

func (h *head) isOverdue(now time.Time) bool {
	return h.Dispatch != nil && !now.Before(h.Dispatch.Deadline)
}

func (h *head) isUnaccepted() bool {
	return h.Dispatch != nil && h.State == Submitted && h.Position == 0
}

type storedEvent struct {
	Event
	// OmitsText reports that only the artifact contains the text of the answer.
	OmitsText bool `json:"repeats,omitempty"`
	// Void withdraws the artifacts of a turn without an answer.
	Void  bool        `json:"void,omitempty"`
	Usage *call.Usage `json:"used,omitempty"`
	// Credential is nil in turns that earlier versions stored. Calls of those turns have no limits.
	Credential *call.Credential `json:"by,omitempty"`
}

func (e *Engine) seal(ctx context.Context, k store.Key, plaintext []byte) ([]byte, error) {
	s, err := e.Texts.Seal(ctx, []byte(k.String()), plaintext)
	if err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "the task cannot be sealed now")
	}
	return append(binary.BigEndian.AppendUint32([]byte{sealFormat}, s.Day), s.Box...), nil
}

// openDoc returns textkeys.ErrDestroyed if the key of the day was destroyed.
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
