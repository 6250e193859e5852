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

const minPrefixDigits = 4

// idPrefix is an id or the start of an id.
type idPrefix struct{ digits string } // lowercase hex

func (e idPrefix) matches(id identity.ID) bool { return strings.HasPrefix(id.String(), e.digits) }

// Find returns the only pair that matches. A reference is the name of a hosted vacant, an id, or a
// prefix of an id.
func Find(ctx context.Context, v store.View, callerRef, vacantRef string) (call.Pair, error) {
	caller, err := resolveReference(ctx, v, "from", callerRef)
	if err != nil {
		return call.Pair{}, err
	}
	vacant, err := resolveReference(ctx, v, "to", vacantRef)
	if err != nil {
		return call.Pair{}, err
	}
	pairs, err := findPairs(ctx, v, caller, vacant)
	switch {
	case err != nil:
		return call.Pair{}, err
	case len(pairs) == 0:
		return call.Pair{}, problem.New(problem.NotFound, "this host has no calls from %s to %s", callerRef, vacantRef)
	case len(pairs) > 1:
		names := make([]string, len(pairs))
		for i, p := range pairs {
			names[i] = p.Caller.Short() + " > " + p.Vacant.Short()
		}
		return call.Pair{}, problem.Invalid("pair", "prefixes that match one pair", fmt.Sprintf("%s > %s, which match %s", callerRef, vacantRef, strings.Join(names, ", ")))
	}
	return pairs[0], nil
}

func resolveReference(ctx context.Context, v store.View, field, nameOrID string) (idPrefix, error) {
	if id, err := identity.ParseID(nameOrID); err == nil {
		return idPrefix{id.String()}, nil
	}
	if registry.CheckName(nameOrID) == nil {
		d, err := vacants.ReadNameDoc(ctx, v, nameOrID)
		if err != nil || d.Version > 0 {
			id, parseErr := vacants.NameDocs.Parse(d)
			return idPrefix{id.String()}, cmp.Or(err, parseErr)
		}
	}
	if digits := strings.ToLower(nameOrID); len(nameOrID) >= minPrefixDigits && len(nameOrID) < 2*identity.Size && strings.Trim(digits, "0123456789abcdef") == "" {
		return idPrefix{digits}, nil
	}
	return idPrefix{}, &problem.Error{Kind: problem.NotFound, Field: field, Want: "the name of a vacant hosted here, an id, or the start of an id", Got: fmt.Sprintf("%.80q", nameOrID)}
}

// ResolveOwnReference returns ownID, the id of the user's own identity. It returns an error if nameOrID may
// also mean another vacant on this host. If ownID is empty, it returns nameOrID.
func ResolveOwnReference(ctx context.Context, v store.View, nameOrID, ownID string) (string, error) {
	if ownID == "" {
		return nameOrID, nil
	}
	self, err := identity.ParseID(ownID)
	if err != nil {
		return "", problem.Invalid("own", "an id", fmt.Sprintf("%.80q", ownID))
	}
	prefix, err := resolveReference(ctx, v, "from", nameOrID)
	if problem.Is(err, problem.NotFound) {
		return ownID, nil
	}
	if err != nil {
		return "", err
	}
	matchedID, err := identity.ParseID(prefix.digits) // fails for an incomplete id
	if err != nil {
		matchedID = self
		for s, err := range store.Streams(ctx, v, store.Stream(store.KindLogbook+"#"+string(decodeHexPrefix(prefix.digits)))) {
			if err != nil {
				return "", err
			}
			if ids := s.IDs(); len(ids) == 1 && prefix.matches(ids[0]) && ids[0] != self {
				matchedID = ids[0]
				break
			}
		}
	}
	if matchedID == self {
		return ownID, nil
	}
	return "", problem.New(problem.Usage, "%q may be your identity %s or the vacant %s on this host; use the id", nameOrID, self.Short(), matchedID.Short())
}

const maxListedPairs = 4

func findPairs(ctx context.Context, v store.View, caller, vacant idPrefix) (found []call.Pair, err error) {
	// Two complete ids are looked up directly, because listing streams reads the complete table.
	callerID, callerErr := identity.ParseID(caller.digits)
	vacantID, vacantErr := identity.ParseID(vacant.digits)
	if callerErr == nil && vacantErr == nil {
		p := call.Pair{Caller: callerID, Vacant: vacantID}
		rows, err := v.Rows(ctx, p.Requests(), 1<<62, 1, store.Descending)
		if err == nil && len(rows) > 0 || problem.Is(err, problem.Damaged) {
			return []call.Pair{p}, nil // damage is reported when the pair is read
		}
		return nil, err
	}
	streamPrefix := store.Stream(store.KindRequest + "#" + string(decodeHexPrefix(caller.digits)))
	for s, err := range store.Streams(ctx, v, streamPrefix) {
		if err != nil {
			return nil, err
		}
		ids := s.IDs()
		if len(ids) == 2 && caller.matches(ids[0]) && vacant.matches(ids[1]) {
			found = append(found, call.Pair{Caller: ids[0], Vacant: ids[1]})
		}
		if len(found) == maxListedPairs {
			return found, nil
		}
	}
	return found, nil
}

func decodeHexPrefix(digits string) []byte {
	b, _ := identity.ParseHex(digits[:len(digits)/2*2])
	return b
}
