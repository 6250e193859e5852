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
		case p.Field == key || p.Kind == problem.NotJSON:
			return p
		default:
			return of(key, p)
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

// within says in front of a refusal what was read. That it is no JSON object
// stays what it is.
func within(what string, err error) error {
	k := problem.Malformed
	if problem.Is(err, problem.NotJSON) {
		k = problem.NotJSON
	}
	return problem.Within(k, what, err)
}

// of names the member that a refusal is about.
func of(field string, err error) error {
	p := problem.Within(problem.Malformed, field, err)
	p.Field = field
	return p
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
