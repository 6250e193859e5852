package listing

import (
	"encoding/hex"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (l *Listing) Blob() []byte {
	dst := append(l.appendBeforeSignature(nil), `,"signature":"`...)
	dst = append(hex.AppendEncode(dst, l.Signature), '"')
	return append(l.appendAfterSignature(dst), '}')
}

// Parse checks the limits of a listing, but not its signature. Unknown members are refused, because
// the signature does not cover them.
func Parse(blob []byte) (Listing, error) {
	var doc Document
	err := canon.UnmarshalSigned("listing", blob, &doc, MaxBlob)
	if problem.Is(err, problem.TooLarge) {
		return Listing{}, err
	}
	if err != nil {
		return Listing{}, problem.New(problem.Malformed, "%s", problem.AsError(err).Text())
	}
	l := doc.Listing
	l.Venue, l.Signature = (*Venue)(doc.Venue), doc.Signature
	// An empty list becomes nil, as if the member were missing.
	l.Tags, l.Skills = append([]string(nil), l.Tags...), append([]string(nil), l.Skills...)
	if err := l.Check(); err != nil {
		return Listing{}, problem.New(problem.Malformed, "listing: %s", problem.AsError(err).Text())
	}
	return l, nil
}

type Document struct {
	Listing
	Venue     *signedVenue       `json:"venue,omitempty"`
	Signature identity.Signature `json:"signature"`
}

// signedVenue returns errors without a Field, because their message already names the field.
type signedVenue Venue

func (v *signedVenue) UnmarshalCanon(d *canon.Decoder) error {
	if err := (*Venue)(v).UnmarshalCanon(d); err != nil {
		return problem.New(problem.Malformed, "%s", problem.AsError(err).Text())
	}
	return nil
}
