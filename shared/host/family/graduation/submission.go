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

// Submission is a graduation request signed by both parties, with artefacts that this host cannot
// sign.
type Submission struct {
	Request   composite.GraduationRequest
	Artefacts Artefacts
}

// Artefacts are signed by a party whose key is not on this host.
type Artefacts = vacants.Artefacts

const MaxSubmissionBytes = 128 << 10

type SubmissionShape struct {
	Request   json.RawMessage `json:"request" canon:"required"`
	Artefacts *ArtefactsShape `json:"artefacts,omitempty"`
}

type ArtefactsShape struct {
	ManifestParent hexText `json:"manifest_signature_parent,omitempty"`
	ManifestChild  hexText `json:"manifest_signature_child,omitempty"`
	Card           hexText `json:"capability_card_blob_hex,omitempty"`
	Time           int64   `json:"event_ts_ms,omitempty"`
	ActorSeq       int64   `json:"event_actor_seq,omitempty"`
	Key            string  `json:"event_idempotency_key,omitempty"`
	Signature      hexText `json:"event_signature_hex,omitempty"`
}

type hexText []byte

func (h hexText) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h), nil }

func (h *hexText) UnmarshalText(b []byte) (err error) {
	*h, err = identity.ParseHex(string(b))
	return err
}

func (s *Submission) Blob() ([]byte, error) {
	w := SubmissionShape{Request: s.Request.Blob()}
	if a := &s.Artefacts; !a.IsZero() {
		w.Artefacts = &ArtefactsShape{a.ManifestParent, a.ManifestChild, a.Card, a.Time, a.ActorSeq, a.IdempotencyKey, a.Signature}
	}
	return encodeJSON(w)
}

// CheckCapability returns an error for a capability text that a card cannot have.
func (s *Submission) CheckCapability() error {
	const field = "capability_text"
	if canon.IsBlank(s.Request.CapabilityText) {
		return problem.Invalid(field, "words", "nothing")
	}
	return canon.CheckSignedText(field, s.Request.CapabilityText)
}

// ParseSubmission parses a Blob without verifying signatures. It refuses unknown and repeated
// members.
func ParseSubmission(blob []byte) (Submission, error) {
	if len(blob) > MaxSubmissionBytes {
		return Submission{}, &problem.Error{Kind: problem.TooLarge, Field: "graduation", Want: fmt.Sprintf("at most %d bytes", MaxSubmissionBytes), Got: fmt.Sprint(len(blob))}
	}
	var w SubmissionShape
	if err := canon.Unmarshal(blob, &w, canon.DefaultLimits()); err != nil {
		return Submission{}, err
	}
	request, err := composite.ParseGraduationRequest(w.Request)
	if err != nil {
		return Submission{}, err
	}
	s := Submission{Request: request}
	if a := w.Artefacts; a != nil {
		s.Artefacts = Artefacts{ManifestParent: a.ManifestParent, ManifestChild: a.ManifestChild, Card: a.Card, Time: a.Time, ActorSeq: a.ActorSeq, IdempotencyKey: a.Key, Signature: a.Signature}
		err = a.check()
	}
	return s, err
}

func (a *ArtefactsShape) check() error {
	for _, field := range []struct {
		name  string
		value []byte
		max   int
	}{
		{"manifest_signature_parent", a.ManifestParent, identity.SignatureSize}, {"manifest_signature_child", a.ManifestChild, identity.SignatureSize},
		{"event_signature_hex", a.Signature, identity.SignatureSize}, {"event_idempotency_key", []byte(a.Key), event.MaxIdempotencyKeyBytes},
	} {
		if len(field.value) > field.max {
			return problem.Invalid("artefacts."+field.name, fmt.Sprintf("at most %d bytes", field.max), fmt.Sprint(len(field.value)))
		}
	}
	for _, number := range []struct {
		name  string
		value int64
	}{{"event_ts_ms", a.Time}, {"event_actor_seq", a.ActorSeq}} {
		if number.value < 0 {
			return problem.Invalid("artefacts."+number.name, "not negative", fmt.Sprint(number.value))
		}
	}
	return nil
}
