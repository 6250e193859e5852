package export

import (
	"encoding/json"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/fsck/transcript"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Pair struct {
	From identity.ID `json:"from"`
	To   identity.ID `json:"to"`
}

// RecordedText is the stored text of a message. If Text is nil, Sealed means that the key of its
// day was destroyed, and Damaged that the stored data are damaged.
type RecordedText struct {
	Text    *string `json:"text,omitempty"`
	Sealed  bool    `json:"sealed,omitempty"`
	Damaged bool    `json:"damaged,omitempty"`
}

// Proof lets a reader verify a message. Message is the signed message as it was sent, or empty if
// its text is unreadable.
type Proof struct {
	Prev    identity.Hash   `json:"prev"`
	Message json.RawMessage `json:"message,omitempty"`
}

// Entry is a call or a reset with its outcome. Epoch is the number of resets up to and including
// the entry.
type Entry struct {
	Position uint64        `json:"position"`
	Kind     string        `json:"kind"` // call or reset
	Epoch    uint64        `json:"epoch"`
	Seq      int64         `json:"seq"` // zero for a reset
	Time     string        `json:"time"`
	Hash     identity.Hash `json:"hash"`
	RecordedText
	// Outcome is empty for a reset.
	Outcome  transcript.Outcome `json:"fate,omitempty"`
	Decision *Decision          `json:"decision,omitempty"`
	Proof
}

// Decision is the row that ended a call. A void call has no Answer.
type Decision struct {
	Position uint64      `json:"position"`
	Answer   *Answer     `json:"answer,omitempty"`
	Cause    *call.Cause `json:"cause,omitempty"`
	Usage    *call.Usage `json:"usage,omitempty"`
}

type Answer struct {
	Seq  int64         `json:"seq"`
	Time string        `json:"time"`
	Hash identity.Hash `json:"hash"`
	RecordedText
	DurationMS int64          `json:"took_ms"` // time from acceptance to the answer
	CutReason  call.CutReason `json:"cut,omitempty"`
	Proof
}

type End struct {
	Entries uint64 `json:"entries"`
}

func recordedTextOf(t transcript.Text) RecordedText {
	if t.Sealed || t.Damaged {
		return RecordedText{Sealed: t.Sealed, Damaged: t.Damaged}
	}
	return RecordedText{Text: &t.Content}
}

func proofOf(prev identity.Hash, t transcript.Text) Proof {
	p := Proof{Prev: prev}
	if t.Envelope != nil {
		p.Message = envelope.AppendMessage(nil, t.Envelope)
	}
	return p
}

func entryOf(e *transcript.Entry) *Entry {
	out := &Entry{
		Position: e.Position, Kind: "call", Epoch: e.Epoch, Seq: e.Seq, Time: canon.FormatTime(e.Time), Hash: e.Hash,
		RecordedText: recordedTextOf(e.Text), Outcome: e.Outcome, Proof: proofOf(e.Prev, e.Text),
	}
	if e.Reset {
		out.Kind = "reset"
	}
	d := &e.Decision
	switch e.Outcome {
	case transcript.Void:
		out.Decision = &Decision{Position: d.Position, Cause: d.Cause, Usage: d.Usage}
	case transcript.Answered:
		out.Decision = &Decision{Position: d.Position, Usage: d.Usage, Answer: &Answer{
			Seq: d.Seq, Time: canon.FormatTime(d.Time), Hash: d.Hash, RecordedText: recordedTextOf(d.Text), DurationMS: d.Duration.Milliseconds(), CutReason: d.CutReason, Proof: proofOf(d.Prev, d.Text),
		}}
	}
	return out
}
