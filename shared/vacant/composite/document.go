package composite

import (
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// parseDocument reads an object of at most so many bytes, member by member,
// and says which of those that must be there is missing. What is read is
// named in front of each refusal.
func parseDocument(what string, blob []byte, most int, needed []string, read func(*canon.Decoder, string) error) error {
	if len(blob) > most {
		return &problem.Error{Kind: problem.TooLarge, Field: what, Want: fmt.Sprintf("at most %d bytes", most), Got: fmt.Sprint(len(blob))}
	}
	limits := canon.DefaultLimits()
	limits.Bytes = most
	d := canon.NewDecoder(blob, limits)
	seen := map[string]bool{}
	err := d.Document(func(key string) error {
		seen[key] = true
		switch p := problem.Of(read(d, key)); {
		case p == nil:
			return nil
		case p.Field == key:
			return p
		default:
			return problem.New(problem.Malformed, "%s: %s", key, p.Text())
		}
	})
	if err != nil {
		return problem.New(problem.Malformed, "%s: %s", what, problem.Of(err).Text())
	}
	for _, key := range needed {
		if !seen[key] {
			return problem.New(problem.Malformed, "%s: %s: expected, but missing", what, key)
		}
	}
	return nil
}

// unknownMember names the key itself, which is what is wrong.
func unknownMember(key, of string) error {
	return &problem.Error{Kind: problem.Malformed, Field: key, Detail: fmt.Sprintf("%.40q is not a member of %s", key, of)}
}

// readIntent reads the word that keeps one kind of signed bytes apart from all
// others.
func readIntent(d *canon.Decoder, want string) error {
	got, err := d.String()
	if err == nil && got != want {
		return problem.Invalid("intent", want, fmt.Sprintf("%.40q", got))
	}
	return err
}
