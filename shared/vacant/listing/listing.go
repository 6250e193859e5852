// Package listing implements a vacant's signed search data that is not in its card, such as tags,
// price and the venue that takes bookings. The signed bytes are built from the fields and begin
// with a domain tag.
package listing

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Strings are limited in bytes, and lists in elements.
const (
	MaxTags             = 16
	MaxTagBytes         = 64
	MaxSkills           = 32
	MaxSkillBytes       = 128
	MaxSummaryBytes     = 1 << 10
	MaxModelFamilyBytes = 64
	MaxOwnerBytes       = 128
	// MaxPrice limits the price to a million dollars per call.
	MaxPrice   = 1_000_000_000_000
	MaxVersion = 1<<53 - 1
	MaxBlob    = 24 << 10
)

// The signed bytes begin with venueDomainTag if the listing has a venue.
const (
	domainTag      = "vacancy:listing:v1\x1f"
	venueDomainTag = "vacancy:listing:v2\x1f"
)

type Listing struct {
	VacantID    identity.ID `json:"vacant_id" canon:"required"`
	Version     int64       `json:"version" canon:"required"` // a registry accepts only increasing versions
	Tags        []string    `json:"tags"`
	Skills      []string    `json:"skills"`
	Summary     string      `json:"summary"`
	ModelFamily string      `json:"family"`
	Owner       string      `json:"owner"`
	Price       int64       `json:"price"` // micro-dollars per call
	Venue       *Venue      `json:"-"`     // DefaultVenue if nil
	Signature   []byte      `json:"-"`     // empty if the operator has set the listing
}

func New(id identity.ID, version int64) Listing { return Listing{VacantID: id, Version: version} }

func (l *Listing) Check() error {
	if err := l.VacantID.Check(); err != nil {
		return err
	}
	if l.Version < 1 || l.Version > MaxVersion {
		return problem.Invalid("version", "1 to 2^53-1", strconv.FormatInt(l.Version, 10))
	}
	if err := checkList("tags", l.Tags, MaxTags, MaxTagBytes); err != nil {
		return err
	}
	if err := checkList("skills", l.Skills, MaxSkills, MaxSkillBytes); err != nil {
		return err
	}
	if err := checkText("summary", l.Summary, MaxSummaryBytes); err != nil {
		return err
	}
	if err := checkText("family", l.ModelFamily, MaxModelFamilyBytes); err != nil {
		return err
	}
	if err := checkText("owner", l.Owner, MaxOwnerBytes); err != nil {
		return err
	}
	if l.Price < 0 || l.Price > MaxPrice {
		return problem.Invalid("price", fmt.Sprintf("0 to %d micro-dollars", int64(MaxPrice)), strconv.FormatInt(l.Price, 10))
	}
	if l.Venue != nil {
		if err := l.Venue.Check(); err != nil {
			return problem.New(problem.Malformed, "venue: %s", problem.AsError(err).Text())
		}
	}
	return nil
}

func checkList(field string, list []string, maxCount, maxBytes int) error {
	if len(list) > maxCount {
		return problem.Invalid(field, fmt.Sprintf("at most %d", maxCount), strconv.Itoa(len(list)))
	}
	for i, s := range list {
		element := fmt.Sprintf("%s[%d]", field, i)
		if canon.IsBlank(s) {
			return problem.Invalid(element, "a word", "a blank string")
		}
		if err := checkText(element, s, maxBytes); err != nil {
			return err
		}
		if slices.Contains(list[:i], s) {
			return problem.Invalid(element, "a value that occurs once", fmt.Sprintf("%q twice", s))
		}
	}
	return nil
}

func checkText(field, s string, maxBytes int) error {
	if len(s) > maxBytes {
		return problem.Invalid(field, fmt.Sprintf("at most %d bytes", maxBytes), strconv.Itoa(len(s)))
	}
	return canon.CheckSignedText(field, s)
}

// Equal ignores the version and the signature.
func (l *Listing) Equal(other *Listing) bool {
	return l.VacantID == other.VacantID && slices.Equal(l.Tags, other.Tags) && slices.Equal(l.Skills, other.Skills) &&
		l.Summary == other.Summary && l.ModelFamily == other.ModelFamily && l.Owner == other.Owner && l.Price == other.Price &&
		l.Venue.equal(other.Venue)
}

// AppendSignedBytes appends the domain tag and the canonical JSON of all members except the
// signature.
func (l *Listing) AppendSignedBytes(dst []byte) []byte {
	tag := domainTag
	if l.Venue != nil {
		tag = venueDomainTag
	}
	return append(l.appendAfterSignature(l.appendBeforeSignature(append(dst, tag...))), '}')
}

// appendBeforeSignature appends the members whose keys sort before "signature".
func (l *Listing) appendBeforeSignature(dst []byte) []byte {
	dst = canon.AppendString(append(dst, `{"family":`...), l.ModelFamily)
	dst = canon.AppendString(append(dst, `,"owner":`...), l.Owner)
	return strconv.AppendInt(append(dst, `,"price":`...), l.Price, 10)
}

func (l *Listing) appendAfterSignature(dst []byte) []byte {
	dst = appendList(append(dst, `,"skills":`...), l.Skills)
	dst = canon.AppendString(append(dst, `,"summary":`...), l.Summary)
	dst = appendList(append(dst, `,"tags":`...), l.Tags)
	dst = append(l.VacantID.AppendHex(append(dst, `,"vacant_id":"`...)), '"')
	if l.Venue != nil {
		dst = l.Venue.appendJSON(append(dst, `,"venue":`...))
	}
	return strconv.AppendInt(append(dst, `,"version":`...), l.Version, 10)
}

func appendList(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = canon.AppendString(dst, s)
	}
	return append(dst, ']')
}

func (l *Listing) Hash() identity.Hash { return identity.Sum(l.AppendSignedBytes(nil)) }

// Sign sets l.Signature. The id of s must be l.VacantID.
func (l *Listing) Sign(ctx context.Context, s identity.Signer) error {
	if err := l.Check(); err != nil {
		return err
	}
	if s.ID() != l.VacantID {
		return problem.New(problem.Untrusted, "listing of %s: cannot be signed by %s", l.VacantID.Short(), s.ID().Short())
	}
	signature, err := s.Sign(ctx, l.AppendSignedBytes(nil))
	if err != nil {
		return err
	}
	l.Signature = signature
	return nil
}

func (l *Listing) Verify() bool {
	return identity.Verify(l.VacantID, l.AppendSignedBytes(nil), l.Signature)
}
