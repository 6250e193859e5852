package graduation

import (
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Submission is a request signed by both parties, with artefacts that this host
// cannot sign.
type Submission struct {
	Request   composite.Request
	Artefacts Artefacts
}

// Artefacts are signed in advance by a party whose key this host does not hold.
// Artefacts of hosted parties are neither needed nor stored.
type Artefacts = vacants.Artefacts

// MaxSubmission is the largest submission in bytes.
const MaxSubmission = 128 << 10

// wire is the JSON form; an event's members are named as in a publication.
type wire struct {
	Request   json.RawMessage `json:"request"`
	Artefacts *wireArtefacts  `json:"artefacts,omitempty"`
}

type wireArtefacts struct {
	ManifestParent string `json:"manifest_signature_parent,omitempty"`
	ManifestChild  string `json:"manifest_signature_child,omitempty"`
	Card           string `json:"capability_card_blob_hex,omitempty"`
	Time           int64  `json:"event_ts_ms,omitempty"`
	ActorSeq       int64  `json:"event_actor_seq,omitempty"`
	Key            string `json:"event_idempotency_key,omitempty"`
	Signature      string `json:"event_signature_hex,omitempty"`
}

// Blob is the JSON form, as sent and stored.
func (s *Submission) Blob() ([]byte, error) {
	w := wire{Request: s.Request.Blob()}
	if a := &s.Artefacts; !a.IsZero() {
		w.Artefacts = &wireArtefacts{hex.EncodeToString(a.ManifestParent), hex.EncodeToString(a.ManifestChild), hex.EncodeToString(a.Card),
			a.Time, a.ActorSeq, a.Key, hex.EncodeToString(a.Signature)}
	}
	return encode(w)
}

// CheckWords refuses a capability text that no card can have: both may have
// signed it elsewhere, and the commit would fail. A handler checks before
// anything is stored.
func (s *Submission) CheckWords() error {
	const field = "capability_text"
	if canon.IsBlank(s.Request.CapabilityText) {
		return problem.Invalid(field, "words", "nothing")
	}
	return canon.CheckText(field, s.Request.CapabilityText)
}

// ParseSubmission parses a Blob strictly: unknown and repeated members are
// refused. Signatures are not verified. Errors are of kind Malformed or
// TooLarge.
func ParseSubmission(blob []byte) (Submission, error) {
	if len(blob) > MaxSubmission {
		return Submission{}, &problem.Error{Kind: problem.TooLarge, Field: "graduation", Want: fmt.Sprintf("at most %d bytes", MaxSubmission), Got: fmt.Sprint(len(blob))}
	}
	var s Submission
	seen := false
	d := canon.NewDecoder(blob, canon.DefaultLimits())
	err := d.Document(func(key string) error {
		switch key {
		case "request":
			seen = true
			raw, err := d.Raw()
			if err != nil {
				return err
			}
			s.Request, err = composite.ParseRequest(raw)
			return err
		case "artefacts":
			if k := d.Kind(); k != canon.Object {
				return problem.Invalid(key, canon.Object.String(), k.String())
			}
			return d.Object(func(name string) error { return readArtefact(&s.Artefacts, d, name) })
		}
		return problem.Invalid(fmt.Sprintf("%.40q", key), "request or artefacts", "another")
	})
	if err == nil && !seen {
		err = problem.Invalid("request", "a graduation request", "nothing")
	}
	return s, err
}

func readArtefact(a *Artefacts, d *canon.Decoder, name string) (err error) {
	field := "artefacts." + name
	switch name {
	case "manifest_signature_parent":
		a.ManifestParent, err = readHex(d, field, identity.SignatureSize)
	case "manifest_signature_child":
		a.ManifestChild, err = readHex(d, field, identity.SignatureSize)
	case "capability_card_blob_hex":
		a.Card, err = readHex(d, field, MaxSubmission)
	case "event_ts_ms":
		a.Time, err = readNumber(d, field)
	case "event_actor_seq":
		a.ActorSeq, err = readNumber(d, field)
	case "event_idempotency_key":
		if a.Key, err = readText(d, field); err == nil && len(a.Key) > event.MaxKey {
			err = problem.Invalid(field, fmt.Sprintf("at most %d bytes", event.MaxKey), fmt.Sprint(len(a.Key)))
		}
	case "event_signature_hex":
		a.Signature, err = readHex(d, field, identity.SignatureSize)
	default:
		err = problem.Invalid(fmt.Sprintf("artefacts.%.40q", name), "a member of artefacts", "another")
	}
	return err
}

func readText(d *canon.Decoder, field string) (string, error) {
	if k := d.Kind(); k != canon.String {
		return "", problem.Invalid(field, canon.String.String(), k.String())
	}
	return d.String()
}

func readHex(d *canon.Decoder, field string, most int) ([]byte, error) {
	text, err := readText(d, field)
	if err != nil {
		return nil, err
	}
	b, err := identity.ParseHex(text)
	if err != nil || len(b) > most {
		return nil, problem.Invalid(field, fmt.Sprintf("hex of at most %d bytes", most), fmt.Sprintf("%.40q", text))
	}
	return b, nil
}

func readNumber(d *canon.Decoder, field string) (int64, error) {
	if k := d.Kind(); k != canon.Int {
		return 0, problem.Invalid(field, canon.Int.String(), k.String())
	}
	n, err := d.Int64()
	if err == nil && n < 0 {
		err = problem.Invalid(field, "not negative", fmt.Sprint(n))
	}
	return n, err
}
