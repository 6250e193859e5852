package fsck

import (
	"fmt"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Check names what was held against what.
type Check string

// The checks.
const (
	// Of every stream.
	Stream   Check = "stream"   // a name of a kind that is known, with the ids of that kind
	Position Check = "position" // rows at 1, 2, 3 and so on
	Row      Check = "row"      // the row's bytes read as one
	Format   Check = "format"   // a row format that this program reads

	// Of requests and responses.
	Epoch          Check = "epoch"     // resets so far; of a response, its request's, and it never falls
	Seq            Check = "seq"       // one more than the row before, from 1 in each epoch
	Prev           Check = "prev"      // hash of the row before, zeros for the first of an epoch; of an event, of the one before
	PrevEpochStart Check = "back"      // where the epoch before began
	Floor          Check = "floor"     // largest signed time so far; of a vacant, what its logbook says since a restore
	Time           Check = "time"      // a reset, and the first call after one, are signed later than the floor
	ResponseTip    Check = "seen"      // the response position read before the accept exists, and the decision lies after it
	Request        Check = "request"   // a response names a call that is there, by position and hash
	Decision       Check = "decision"  // a call is decided at most once
	Void           Check = "void"      // a void leaves the chain where it was
	Text           Check = "text"      // the sealed text opens and reads
	Kind           Check = "kind"      // a reset reads as one, a call does not
	Form           Check = "form"      // what no host accepts or signs: a call by ROLE_AGENT, an answer by another role, a key re: on a request
	Hash           Check = "hash"      // recomputed from the envelope
	Signature      Check = "signature" // the caller's of requests, the vacant's of answers, the owner's of entries

	// Of logbooks and documents.
	Document Check = "document" // a document's bytes read as one
	State    Check = "state"    // the record has the state that its logbook ends in
	Card     Check = "card"     // the card verifies, is the vacant's, and is the one last signed
	Name     Check = "name"     // the name leads to the vacant that bears it
	Key      Check = "key"      // a sealed key opens, and is that of its id

	// Of parents and children.
	Kin        Check = "kin"        // record, manifest and the logbooks of both tell of the same child
	Plan       Check = "plan"       // a composite answers by the plan that its logbook names
	Graduation Check = "graduation" // an attempt has one outcome, and what it opened is open; a slot was taken by one

	// Of the registry.
	Event        Check = "event"        // an event is in the chain of all and in its actor's own, and the same there
	Registration Check = "registration" // what the registry says of a vacant is what its events say
	Revocation   Check = "revocation"   // a key is refused if and only if its last event says so
	Log          Check = "log"          // what is sealed is what the events make it: tiles, epochs, checkpoints
	Manifest     Check = "manifest"     // a proven parent has a manifest that both have signed, and it is obeyed
)

// Finding is one thing that is broken.
type Finding struct {
	Where    string `json:"stream"`             // the stream, kind#id or kind#id#id; or the document, partition/sort
	Position uint64 `json:"position,omitempty"` // 0: the stream or document as a whole
	Check    Check  `json:"check"`
	Want     string `json:"want"`
	Got      string `json:"got"`
}

// String is the finding on one line.
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
	Rows       uint64 `json:"rows"`                 // read, whatever their condition
	Sealed     uint64 `json:"sealed"`               // of these, rows whose text nobody can read any more
	Vacants    uint64 `json:"vacants"`              // hosted, with record, card and name
	Events     uint64 `json:"events,omitempty"`     // in the chain of the registry
	Registered uint64 `json:"registered,omitempty"` // vacants with a registration, hosted here or not
	// Withheld counts the sealed keys that the vault would not open for this
	// check: whether they are whole is not known.
	Withheld uint64 `json:"withheld,omitempty"`
	Findings uint64 `json:"broken"` // findings reported; 0: everything is whole
}

func inStream(s store.Stream, position uint64, c Check, want, got string) Finding {
	return Finding{Where: s.String(), Position: position, Check: c, Want: want, Got: got}
}

func inDocument(k store.Key, c Check, want, got string) Finding {
	return Finding{Where: k.String(), Check: c, Want: want, Got: got}
}
