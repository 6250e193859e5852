package export

import (
	"encoding/json"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/fsck/transcript"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Pair names a caller and a vacant.
type Pair struct {
	From identity.ID `json:"from"`
	To   identity.ID `json:"to"`
}

// Said is a recorded text. Text is nil if it is unreadable: Sealed, because the
// key of its day was destroyed; or Damaged.
type Said struct {
	Text    *string `json:"text,omitempty"`
	Sealed  bool    `json:"sealed,omitempty"`
	Damaged bool    `json:"damaged,omitempty"`
}

// Proof lets a reader verify a message. Prev is the hash of the message before it, as signed; of a
// reset it has no meaning. Message is the signed message as it was sent, unless its text is unreadable.
type Proof struct {
	Prev    identity.Hash   `json:"prev"`
	Message json.RawMessage `json:"message,omitempty"`
}

// Entry is a call or a reset with its outcome. Times are in wire form (UTC,
// PROTOCOL §3).
type Entry struct {
	Position uint64        `json:"position"`
	Kind     string        `json:"kind"` // call or reset
	Epoch    uint64        `json:"epoch"`
	Seq      int64         `json:"seq"` // 0 for a reset
	Time     string        `json:"time"`
	Hash     identity.Hash `json:"hash"`
	Said
	Fate     transcript.Fate `json:"fate,omitempty"` // for a call: answered, void, closed or pending
	Decision *Decision       `json:"decision,omitempty"`
	Proof
}

// Decision is the row that decided a call. For a void it has only the position.
type Decision struct {
	Position uint64  `json:"position"`
	Answer   *Answer `json:"answer,omitempty"`
	// Cause tells why a void call was not answered, if it is known and still
	// readable.
	Cause *call.Cause `json:"cause,omitempty"`
	Usage *call.Usage `json:"usage,omitempty"` // what the vacant's agent used, if it says so
}

// Answer is the answer to a call.
type Answer struct {
	Seq  int64         `json:"seq"`
	Time string        `json:"time"`
	Hash identity.Hash `json:"hash"`
	Said
	TookMS int64    `json:"took_ms"`       // from acceptance to answer
	Cut    call.Cut `json:"cut,omitempty"` // why it ends before its end
	Proof
}

// End is the last line of a history.
type End struct {
	Entries uint64 `json:"entries"`
}

func saidOf(t transcript.Text) Said {
	if t.Sealed || t.Damaged {
		return Said{Sealed: t.Sealed, Damaged: t.Damaged}
	}
	return Said{Text: &t.Said}
}

func proofOf(prev identity.Hash, t transcript.Text) Proof {
	p := Proof{Prev: prev}
	if t.Signed != nil {
		p.Message = envelope.AppendMessage(nil, t.Signed)
	}
	return p
}

func entryOf(e *transcript.Entry) *Entry {
	out := &Entry{
		Position: e.Position, Kind: "call", Epoch: e.Epoch, Seq: e.Seq, Time: canon.FormatTime(e.Time), Hash: e.Hash,
		Said: saidOf(e.Text), Fate: e.Fate, Proof: proofOf(e.Prev, e.Text),
	}
	if e.Reset {
		out.Kind = "reset"
	}
	d := &e.Decision
	switch e.Fate {
	case transcript.Void:
		out.Decision = &Decision{Position: d.Position, Cause: d.Cause, Usage: d.Usage}
	case transcript.Answered:
		out.Decision = &Decision{Position: d.Position, Usage: d.Usage, Answer: &Answer{
			Seq: d.Seq, Time: canon.FormatTime(d.Time), Hash: d.Hash, Said: saidOf(d.Text), TookMS: d.Took.Milliseconds(), Cut: d.Cut, Proof: proofOf(d.Prev, d.Text),
		}}
	}
	return out
}
