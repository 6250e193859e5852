package fsck

import (
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Check names a rule that was checked.
type Check string

// The checks.
const (
	// For every stream.
	Stream   Check = "stream"   // the name has a known kind and the ids of that kind
	Position Check = "position" // rows at 1, 2, 3 and so on
	Row      Check = "row"      // the row's bytes can be decoded
	Format   Check = "format"   // a row format that this program reads

	// For requests and responses.
	Epoch          Check = "epoch"     // number of resets; a response has its request's, and it never falls
	Seq            Check = "seq"       // one more than the row before, from 1 in each epoch
	Prev           Check = "prev"      // hash of the row before, zeros for the first of an epoch; of an event, hash of the event before
	PrevEpochStart Check = "back"      // start of the previous epoch
	Floor          Check = "floor"     // largest signed time so far; of a vacant, the floor in its logbook after a restore
	Time           Check = "time"      // a reset, and the first call after one, are signed later than the floor
	ResponseTip    Check = "seen"      // the response position read before the accept exists, and the decision lies after it
	Request        Check = "request"   // a response names an existing call by position and hash
	Decision       Check = "decision"  // a call has at most one decision
	Void           Check = "void"      // a void does not move the chain
	Text           Check = "text"      // the sealed text opens and decodes
	Kind           Check = "kind"      // a reset has the form of a reset, a call does not
	Form           Check = "form"      // never accepted or signed: a call by ROLE_AGENT, an answer by another role, a key re: on a request
	Hash           Check = "hash"      // recomputed from the envelope
	Signature      Check = "signature" // requests: the caller's; answers: the vacant's; entries: the owner's

	// For logbooks and documents.
	Document Check = "document" // the document's bytes can be decoded
	State    Check = "state"    // the record's state is the last state in its logbook
	Card     Check = "card"     // the card verifies, is the vacant's, and is the one last signed
	Name     Check = "name"     // the name and the vacant's record name each other
	Key      Check = "key"      // a sealed key opens and is its id's key
	Agent    Check = "agent"    // every version of the vacant's agent can be read; its model's answers are in the logbook
	Spend    Check = "spend"    // a vacant's daily totals are readable and cover the cost of its rows

	Money Check = "money" // an account's balance is the sum of its rows and its calls' rows; a charge follows the price

	// For parents and children.
	Kin        Check = "kin"        // record, manifest and both logbooks agree about the child
	Plan       Check = "plan"       // a composite's plan is the one its logbook names
	Graduation Check = "graduation" // an attempt has one outcome; its manifest is open; each slot belongs to one attempt

	// For the registry.
	Event        Check = "event"        // an event is the same in the chain of all events and in its actor's
	Registration Check = "registration" // the registration follows from the vacant's events
	Revocation   Check = "revocation"   // a key is revoked if and only if its last event says so
	Log          Check = "log"          // tiles, epochs and checkpoints follow from the events
	Manifest     Check = "manifest"     // a proven parent has a manifest with both signatures, and the registration follows it
)

// Finding is one defect.
type Finding struct {
	Where    string `json:"stream"`             // the stream, kind#id or kind#id#id; or the document, partition/sort
	Position uint64 `json:"position,omitempty"` // zero for the stream or document as a whole
	Check    Check  `json:"check"`
	Want     string `json:"want"`
	Got      string `json:"got"`
}

// String returns the finding in one line.
func (f Finding) String() string {
	at := f.Where
	if f.Position > 0 {
		at = fmt.Sprintf("%s row %d", at, f.Position)
	}
	return fmt.Sprintf("%s: %s: expected %s, got %s", at, f.Check, f.Want, f.Got)
}

// Result counts what was checked.
type Result struct {
	Streams    uint64 `json:"streams"`
	Rows       uint64 `json:"rows"`                 // read, damaged or not
	Sealed     uint64 `json:"sealed"`               // rows whose text cannot be read any more
	Vacants    uint64 `json:"vacants"`              // hosted, with record, card and name
	Events     uint64 `json:"events,omitempty"`     // in the chain of the registry
	Registered uint64 `json:"registered,omitempty"` // vacants with a registration, hosted here or not
	// Withheld counts sealed keys that the vault would not open for this check,
	// so they are unchecked.
	Withheld uint64 `json:"withheld,omitempty"`
	// Changing counts the findings of a second reading that the first did not have, and balances
	// that changed whenever they were read, which were compared within the amounts of the new rows.
	Changing uint64 `json:"changing,omitempty"`
	// Restored is the time of the last restore of a vacant from a backup, or the zero time.
	// Messages signed until RefusedUntil are refused since.
	Restored     time.Time `json:"restored,omitzero"`
	RefusedUntil time.Time `json:"refused_until,omitzero"`
	Findings     uint64    `json:"broken"` // findings reported; zero means no damage
}

func inStream(s store.Stream, position uint64, c Check, want, got string) Finding {
	return Finding{Where: s.String(), Position: position, Check: c, Want: want, Got: got}
}

func inDocument(k store.Key, c Check, want, got string) Finding {
	return Finding{Where: k.String(), Check: c, Want: want, Got: got}
}
