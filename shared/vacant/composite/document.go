package composite

import (
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// parseDocument parses an object of at most most bytes, member by member, and
// refuses missing members. Errors begin with what.
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
		case p.Field == key || p.Kind == problem.NotJSON:
			return p
		default:
			return inMember(key, p)
		}
	})
	if err != nil {
		return within(what, err)
	}
	for _, key := range needed {
		if !seen[key] {
			return &problem.Error{Kind: problem.Malformed, Field: key, Detail: fmt.Sprintf("%s: %s: expected, but missing", what, key)}
		}
	}
	return nil
}

// within prefixes an error with what was parsed. An error of kind NotJSON keeps
// its kind.
func within(what string, err error) error {
	k := problem.Malformed
	if problem.Is(err, problem.NotJSON) {
		k = problem.NotJSON
	}
	return problem.Within(k, what, err)
}

// inMember prefixes an error with a member's name.
func inMember(field string, err error) error {
	p := problem.Within(problem.Malformed, field, err)
	p.Field = field
	return p
}

// unknownMember refuses a key by name.
func unknownMember(key, of string) error {
	return &problem.Error{Kind: problem.Malformed, Field: key, Detail: fmt.Sprintf("%.40q is not a member of %s", key, of)}
}

// readIntent checks the word that distinguishes this kind of signed bytes from
// all others.
func readIntent(d *canon.Decoder, want string) error {
	got, err := d.String()
	if err == nil && got != want {
		return problem.Invalid("intent", want, fmt.Sprintf("%.40q", got))
	}
	return err
}
