package fsck

import (
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
)

type Check string

const (
	Stream   Check = "stream"   // the name has a known kind and ids that fit the kind
	Position Check = "position" // rows have the positions 1, 2, 3 and so on
	Row      Check = "row"
	Format   Check = "format" // this program supports the format of the row

	Epoch          Check = "epoch"   // number of resets; it never decreases
	Seq            Check = "seq"     // starts at 1 in each epoch and increases by one
	Prev           Check = "prev"    // hash of the previous row, or zeros for the first row of an epoch
	PrevEpochStart Check = "back"    // start of the previous epoch
	Floor          Check = "floor"   // latest signed time so far, or the time until which a restored vacant refuses messages
	Time           Check = "time"    // a reset, and the first call after a reset, have a signed time after the floor
	ResponseTip    Check = "seen"    // a request records the last response position, which exists and precedes the decision
	Request        Check = "request" // a response refers to an existing call by its position and hash
	Decision       Check = "decision"
	Void           Check = "void" // a void, which decides a call without an answer, does not change the chain
	Text           Check = "text" // the sealed text opens and can be decoded
	Kind           Check = "kind"
	MessageForm    Check = "form" // a role or key that a request or an answer must not have
	Hash           Check = "hash"
	Signature      Check = "signature" // a request is signed by the caller, an answer by the vacant, and an entry by the owner

	Document Check = "document"
	State    Check = "state" // the record has the last state in the logbook
	Card     Check = "card"  // the card belongs to the vacant and is the last card that was signed
	Name     Check = "name"  // the name and the vacant's record refer to each other
	Key      Check = "key"
	Agent    Check = "agent" // all agent versions can be read, and the logbook has an entry for each answer of the model
	Spend    Check = "spend" // the daily totals can be read and are at least the cost of the vacant's rows

	File Check = "file" // the documents of files match the stored bytes

	Money Check = "money" // a balance is the sum of the rows of the account and its calls, and a charge matches the price

	Kin        Check = "kin" // the record, the manifest and both logbooks agree about the child
	Plan       Check = "plan"
	Graduation Check = "graduation" // an attempt has one outcome, and each slot belongs to one attempt

	Event        Check = "event"
	Registration Check = "registration"
	Revocation   Check = "revocation" // a key is revoked if and only if its last event is a revocation
	Log          Check = "log"        // tiles, epochs and checkpoints match the events
	Reputation   Check = "reputation" // a reputation follows from the vacant's reviews, and a call has at most one review
	Manifest     Check = "manifest"   // a proven parent has a manifest with both signatures, and the registration matches the manifest
)

type Finding struct {
	Location string `json:"stream"`             // stream as kind#id or kind#id#id, or document as partition/sort
	Position uint64 `json:"position,omitempty"` // zero for the complete stream or document
	Check    Check  `json:"check"`
	Want     string `json:"want"`
	Got      string `json:"got"`
}

func (f Finding) String() string {
	location := f.Location
	if f.Position > 0 {
		location = fmt.Sprintf("%s row %d", location, f.Position)
	}
	return fmt.Sprintf("%s: %s: expected %s, got %s", location, f.Check, f.Want, f.Got)
}

type Result struct {
	Streams    uint64 `json:"streams"`
	Rows       uint64 `json:"rows"`   // including damaged rows
	SealedRows uint64 `json:"sealed"` // rows whose text can no longer be read
	Vacants    uint64 `json:"vacants"`
	Events     uint64 `json:"events,omitempty"`
	Registered uint64 `json:"registered,omitempty"` // including vacants on other hosts
	// WithheldKeys counts sealed keys that were not checked, because the vault did not open them.
	WithheldKeys uint64 `json:"withheld,omitempty"`
	// ChangingFindings counts findings and balances that changed during the check.
	ChangingFindings uint64 `json:"changing,omitempty"`
	// RestoredAt is the time of the last restore of a vacant from a backup. The vacant refuses
	// messages signed at or before RefusedUntil.
	RestoredAt   time.Time `json:"restored,omitzero"`
	RefusedUntil time.Time `json:"refused_until,omitzero"`
	Findings     uint64    `json:"broken"` // zero means no damage
}

func newStreamFinding(s store.Stream, position uint64, c Check, want, got string) Finding {
	return Finding{Location: s.String(), Position: position, Check: c, Want: want, Got: got}
}

func newDocumentFinding(k store.Key, c Check, want, got string) Finding {
	return Finding{Location: k.String(), Check: c, Want: want, Got: got}
}
