package listing

import (
	"encoding/hex"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Blob is the serialised listing: canonical JSON of all its members. Without a
// signature that member is "".
func (l *Listing) Blob() []byte {
	dst := append(l.appendToPrice(nil), `,"signature":"`...)
	dst = append(hex.AppendEncode(dst, l.Signature), '"')
	return append(l.appendAfterPrice(dst), '}')
}

// Parse parses a serialised listing and checks its limits, not its signature.
// Unknown members are refused, because nobody signed them. Only vacant_id and
// version are required. Errors have kind Malformed or TooLarge.
func Parse(blob []byte) (Listing, error) {
	if len(blob) > MaxBlob {
		return Listing{}, &problem.Error{Kind: problem.TooLarge, Field: "listing",
			Want: fmt.Sprintf("at most %d bytes", MaxBlob), Got: fmt.Sprint(len(blob))}
	}
	limits := canon.DefaultLimits()
	limits.Bytes = MaxBlob
	var l Listing
	d := canon.NewDecoder(blob, limits)
	seen := map[string]bool{}
	err := d.Document(func(key string) error {
		seen[key] = true
		return l.read(d, key)
	})
	if err == nil {
		for _, key := range []string{"vacant_id", "version"} {
			if !seen[key] {
				return Listing{}, problem.New(problem.Malformed, "listing: %s: expected, but missing", key)
			}
		}
		err = l.Check()
	}
	if err != nil {
		return Listing{}, problem.New(problem.Malformed, "listing: %s", problem.Of(err).Text())
	}
	return l, nil
}

// Shape is the JSON of a listing, for descriptions: Parse reads it, and Blob writes it.
type Shape struct {
	ID        identity.ID `json:"vacant_id" canon:"required"`
	Version   int64       `json:"version" canon:"required"`
	Tags      []string    `json:"tags"`
	Skills    []string    `json:"skills"`
	Summary   string      `json:"summary"`
	Family    string      `json:"family"`
	Owner     string      `json:"owner"`
	Price     int64       `json:"price"`
	Venue     *Venue      `json:"venue,omitempty"`
	Signature string      `json:"signature"` // hex
}

func (l *Listing) read(d *canon.Decoder, key string) (err error) {
	switch key {
	case "vacant_id":
		var s string
		if s, err = d.String(); err == nil {
			l.VacantID, err = identity.ParseID(s)
		}
	case "version":
		l.Version, err = d.Int64()
	case "tags":
		l.Tags, err = readList(d)
	case "skills":
		l.Skills, err = readList(d)
	case "summary":
		l.Summary, err = d.String()
	case "family":
		l.Family, err = d.String()
	case "owner":
		l.Owner, err = d.String()
	case "price":
		l.Price, err = d.Int64()
	case "venue":
		l.Venue = new(Venue)
		err = l.Venue.UnmarshalCanon(d)
	case "signature":
		var s string
		if s, err = d.String(); err == nil && s != "" {
			l.Signature, err = identity.ParseHex(s)
		}
	default:
		return problem.New(problem.Malformed, "%.40q is not a member of a listing", key)
	}
	if p := problem.Of(err); p != nil && p.Field != key {
		return problem.New(problem.Malformed, "%s: %s", key, p.Text())
	}
	return err
}

func readList(d *canon.Decoder) ([]string, error) {
	var list []string
	err := d.Array(func(int) error {
		s, err := d.String()
		list = append(list, s)
		return err
	})
	return list, err
}
