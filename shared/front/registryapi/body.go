package registryapi

import (
	"fmt"
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// parsePublication decodes the body of a publication. The returned listing is nil if the body has
// none. An invalid shape becomes status 422, as in the reference.
func parsePublication(body []byte) (pub registryclient.Publication, l *listing.Listing, err error) {
	pub.Visibility = lifecycle.Public
	if err := canon.Unmarshal(body, &pub, canon.DefaultLimits()); err != nil {
		return pub, nil, schemaError(err)
	}
	if !slices.Contains(lifecycle.States(), pub.State) {
		return pub, nil, schemaError(problem.Invalid("runtime_state", fmt.Sprintf("one of %v", lifecycle.States()), quoteTruncated(string(pub.State))))
	}
	if v := pub.Visibility; v != lifecycle.Public && v != lifecycle.Restricted && v != lifecycle.Hidden {
		return pub, nil, schemaError(problem.Invalid("visibility", "PUBLIC, RESTRICTED or NONE", quoteTruncated(string(v))))
	}
	if err := checkEvent(pub.Time, pub.ActorSeq); err != nil || len(pub.Listing) == 0 {
		return pub, nil, schemaError(err)
	}
	parsed, err := listing.Parse(pub.Listing)
	if err != nil {
		return pub, nil, schemaError(problem.AtPath("listing", err))
	}
	return pub, &parsed, nil
}

func parseRevocation(body []byte) (rev registryclient.Revocation, err error) {
	if err = canon.Unmarshal(body, &rev, canon.DefaultLimits()); err == nil {
		err = checkEvent(rev.Time, rev.ActorSeq)
	}
	return rev, schemaError(err)
}

func checkEvent(time, actorSeq int64) error {
	switch {
	case time < 0:
		return problem.Invalid("event_ts_ms", "at least 0", fmt.Sprint(time))
	case actorSeq < 1:
		return problem.Invalid("event_actor_seq", "at least 1", fmt.Sprint(actorSeq))
	}
	return nil
}

// As in the reference, an invalid hexadecimal field becomes status 400 instead of 422.
func decodeHex(field, s string) ([]byte, error) {
	b, err := identity.ParseHex(s)
	if err != nil {
		return nil, problem.New(problem.Malformed, "%s not hex: got %s", field, quoteTruncated(s))
	}
	return b, nil
}

// schemaError returns err with the kind InvalidMember, unless err is nil or of kind TooLarge.
func schemaError(err error) error {
	if err == nil || problem.Is(err, problem.TooLarge) {
		return err
	}
	p := *problem.AsError(err)
	p.Kind = problem.InvalidMember
	return &p
}
