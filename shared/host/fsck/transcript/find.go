package transcript

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// minPrefix is the minimum length of an id's prefix in hex digits, as in vacants.Find.
const minPrefix = 4

// end is an id or the start of an id. It selects the caller or the vacant of a pair.
type end struct{ digits string } // lowercase hex

func (e end) fits(id identity.ID) bool { return strings.HasPrefix(id.String(), e.digits) }

// Find returns the pair of a caller and a vacant. Each is given as the name of a hosted vacant, an
// id, or a prefix of an id. The result must be unique.
func Find(ctx context.Context, v store.View, from, to string) (call.Pair, error) {
	caller, err := endOf(ctx, v, "from", from)
	if err != nil {
		return call.Pair{}, err
	}
	vacant, err := endOf(ctx, v, "to", to)
	if err != nil {
		return call.Pair{}, err
	}
	pairs, err := pairs(ctx, v, caller, vacant)
	switch {
	case err != nil:
		return call.Pair{}, err
	case len(pairs) == 0:
		return call.Pair{}, problem.New(problem.NotFound, "this host has no calls from %s to %s", from, to)
	case len(pairs) > 1:
		shown := make([]string, len(pairs))
		for i, p := range pairs {
			shown[i] = p.Caller.Short() + " > " + p.Vacant.Short()
		}
		return call.Pair{}, problem.Invalid("pair", "prefixes that match one pair", fmt.Sprintf("%s > %s, which match %s", from, to, strings.Join(shown, ", ")))
	}
	return pairs[0], nil
}

func endOf(ctx context.Context, v store.View, field, word string) (end, error) {
	if id, err := identity.ParseID(word); err == nil {
		return end{id.String()}, nil
	}
	if registry.CheckName(word) == nil {
		d, err := vacants.NameDoc(ctx, v, word)
		if err != nil || d.Version > 0 {
			id, parseErr := vacants.NameDocs.Parse(d)
			return end{id.String()}, cmp.Or(err, parseErr)
		}
	}
	if digits := strings.ToLower(word); len(word) >= minPrefix && len(word) < 2*identity.Size && strings.Trim(digits, "0123456789abcdef") == "" {
		return end{digits}, nil
	}
	return end{}, &problem.Error{Kind: problem.NotFound, Field: field, Want: "the name of a vacant on this host, an id, or the start of an id", Got: fmt.Sprintf("%.80q", word)}
}

// ResolveOwn resolves word, a name or id that a user entered. own is the id of the user's own
// identity with this name, or empty if the user has none. ResolveOwn returns own if it is not
// empty, and otherwise word. It returns an error if word may also mean another vacant on this host.
func ResolveOwn(ctx context.Context, v store.View, word, own string) (string, error) {
	if own == "" {
		return word, nil
	}
	mine, err := identity.ParseID(own)
	if err != nil {
		return "", problem.Invalid("own", "an id", fmt.Sprintf("%.80q", own))
	}
	e, err := endOf(ctx, v, "from", word)
	if problem.Is(err, problem.NotFound) {
		return own, nil
	}
	if err != nil {
		return "", err
	}
	other, err := identity.ParseID(e.digits) // complete if e was found by name; a prefix is looked up below
	if err != nil {
		other = mine
		for s, err := range store.Streams(ctx, v, store.Stream(store.KindLogbook+"#"+string(wholeBytes(e.digits)))) {
			if err != nil {
				return "", err
			}
			if ids := s.IDs(); len(ids) == 1 && e.fits(ids[0]) && ids[0] != mine {
				other = ids[0]
				break
			}
		}
	}
	if other == mine {
		return own, nil
	}
	return "", problem.New(problem.Usage, "%q may be your identity %s or the vacant %s on this host; use the id", word, mine.Short(), other.Short())
}

// maxPairs limits the pairs that the error lists if several pairs match.
const maxPairs = 4

func pairs(ctx context.Context, v store.View, caller, vacant end) (found []call.Pair, err error) {
	// Two complete ids are looked up directly, because listing the streams of a table reads the
	// complete table.
	from, errFrom := identity.ParseID(caller.digits)
	to, errTo := identity.ParseID(vacant.digits)
	if errFrom == nil && errTo == nil {
		p := call.Pair{Caller: from, Vacant: to}
		rows, err := v.Rows(ctx, p.Requests(), 1<<62, 1, store.Descending)
		if err == nil && len(rows) > 0 || problem.Is(err, problem.Damaged) {
			return []call.Pair{p}, nil // damage is reported when the pair is read
		}
		return nil, err
	}
	prefix := store.Stream(store.KindRequest + "#" + string(wholeBytes(caller.digits)))
	for s, err := range store.Streams(ctx, v, prefix) {
		if err != nil {
			return nil, err
		}
		ids := s.IDs()
		if len(ids) == 2 && caller.fits(ids[0]) && vacant.fits(ids[1]) { // fsck reports streams with other names
			found = append(found, call.Pair{Caller: ids[0], Vacant: ids[1]})
		}
		if len(found) == maxPairs {
			return found, nil
		}
	}
	return found, nil
}

func wholeBytes(digits string) []byte {
	b, _ := identity.ParseHex(digits[:len(digits)/2*2])
	return b
}
