package fsck

import (
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Check is the name of a rule.
type Check string

const (
	// These checks apply to every stream.
	Stream   Check = "stream"   // the name has a known kind and ids that fit the kind
	Position Check = "position" // rows have the positions 1, 2, 3 and so on
	Row      Check = "row"      // the row can be decoded
	Format   Check = "format"   // this program supports the format of the row

	// These checks apply to requests and responses.
	Epoch          Check = "epoch"     // number of resets; it never decreases, and a response has its request's epoch
	Seq            Check = "seq"       // one more than in the previous row; it starts at 1 in each epoch
	Prev           Check = "prev"      // hash of the previous row, or zeros for the first row of an epoch; for an event, the hash of the previous event
	PrevEpochStart Check = "back"      // start of the previous epoch
	Floor          Check = "floor"     // latest signed time in the chain so far; for a restored vacant, the time in its logbook until which signed messages are refused
	Time           Check = "time"      // a reset, and the first call after a reset, have a signed time after the floor
	ResponseTip    Check = "seen"      // a request records the position of the last response; this response exists, and the decision of the request comes later
	Request        Check = "request"   // a response refers to an existing call by its position and hash
	Decision       Check = "decision"  // a call has at most one decision
	Void           Check = "void"      // a void, which decides a call without an answer, does not change the chain
	Text           Check = "text"      // the sealed text opens and can be decoded
	Kind           Check = "kind"      // a reset has the form of a reset, and a call does not
	MessageForm    Check = "form"      // forms that are never accepted: a call with ROLE_AGENT, an answer with another role, a request with an idempotency key of a reply
	Hash           Check = "hash"      // hash of the envelope
	Signature      Check = "signature" // a request is signed by the caller, an answer by the vacant, and an entry by the owner

	// These checks apply to logbooks and documents.
	Document Check = "document" // the document can be decoded
	State    Check = "state"    // the record's state is the last state in the logbook
	Card     Check = "card"     // the card verifies, belongs to the vacant, and is the last card that was signed
	Name     Check = "name"     // the name and the vacant's record refer to each other
	Key      Check = "key"      // a sealed key opens and matches its id
	Agent    Check = "agent"    // all versions of the vacant's agent can be read, and the logbook has an entry for each answer of its model
	Spend    Check = "spend"    // the daily totals of a vacant can be read and are at least the cost of its rows

	File Check = "file" // the bytes of each file exist, all bytes belong to a file, and a workspace has the right counts of files and bytes

	Money Check = "money" // a balance is the sum of the rows of the account and its calls, and a charge matches the price

	// These checks apply to parents and children.
	Kin        Check = "kin"        // the record, the manifest and both logbooks agree about the child
	Plan       Check = "plan"       // a composite has the plan that its logbook names
	Graduation Check = "graduation" // an attempt has one outcome, its manifest is open, and each slot belongs to one attempt

	// These checks apply to the registry.
	Event        Check = "event"        // an event is the same in the chain of all events and in its actor's chain
	Registration Check = "registration" // the registration matches the vacant's events
	Revocation   Check = "revocation"   // a key is revoked if and only if its last event is a revocation
	Log          Check = "log"          // tiles, epochs and checkpoints match the events
	Reputation   Check = "reputation"   // a reputation follows from the vacant's reviews, and a call has at most one review
	Manifest     Check = "manifest"     // a proven parent has a manifest with both signatures, and the registration matches the manifest
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

// Result contains the counts of a check.
type Result struct {
	Streams    uint64 `json:"streams"`
	Rows       uint64 `json:"rows"`                 // rows that were read, including damaged ones
	SealedRows uint64 `json:"sealed"`               // rows whose text can no longer be read
	Vacants    uint64 `json:"vacants"`              // hosted vacants with a record
	Events     uint64 `json:"events,omitempty"`     // events in the chain of the registry
	Registered uint64 `json:"registered,omitempty"` // vacants with a registration, on this or another host
	// WithheldKeys counts sealed keys that the vault did not open for this check, so they were not
	// checked.
	WithheldKeys uint64 `json:"withheld,omitempty"`
	// ChangingFindings counts the findings that only the second reading had. It also counts
	// balances that changed at every read, so they could not be compared exactly.
	ChangingFindings uint64 `json:"changing,omitempty"`
	// RestoredAt is the time of the last restore of a vacant from a backup, or the zero time. The
	// restored vacant refuses messages that were signed at or before RefusedUntil.
	RestoredAt   time.Time `json:"restored,omitzero"`
	RefusedUntil time.Time `json:"refused_until,omitzero"`
	Findings     uint64    `json:"broken"` // number of reported findings; zero means no damage
}

func newStreamFinding(s store.Stream, position uint64, c Check, want, got string) Finding {
	return Finding{Location: s.String(), Position: position, Check: c, Want: want, Got: got}
}

func newDocumentFinding(k store.Key, c Check, want, got string) Finding {
	return Finding{Location: k.String(), Check: c, Want: want, Got: got}
}
