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

// readHalo decodes the body of a publication; the halo is the vacant's signed card. The returned
// listing is nil if the body has none. An invalid shape is an error of kind Schema, which becomes
// status 422 as in the reference.
func readHalo(body []byte) (h registryclient.Publication, l *listing.Listing, err error) {
	h.Visibility = lifecycle.Public
	if err := canon.Unmarshal(body, &h, canon.DefaultLimits()); err != nil {
		return h, nil, schema(err)
	}
	if !slices.Contains(lifecycle.States(), h.State) {
		return h, nil, schema(problem.Invalid("runtime_state", fmt.Sprintf("one of %v", lifecycle.States()), clip(string(h.State))))
	}
	if v := h.Visibility; v != lifecycle.Public && v != lifecycle.Restricted && v != lifecycle.Hidden {
		return h, nil, schema(problem.Invalid("visibility", "PUBLIC, RESTRICTED or NONE", clip(string(v))))
	}
	if err := checkEvent(h.Time, h.ActorSeq); err != nil || len(h.Listing) == 0 {
		return h, nil, schema(err)
	}
	parsed, err := listing.Parse(h.Listing)
	if err != nil {
		return h, nil, schema(problem.AtPath("listing", err))
	}
	return h, &parsed, nil
}

func readRevocation(body []byte) (v registryclient.Revocation, err error) {
	if err = canon.Unmarshal(body, &v, canon.DefaultLimits()); err == nil {
		err = checkEvent(v.Time, v.ActorSeq)
	}
	return v, schema(err)
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

// unhex decodes a hexadecimal field. As in the reference, its error becomes status 400, whereas an
// error of kind Schema becomes 422.
func unhex(field, s string) ([]byte, error) {
	b, err := identity.ParseHex(s)
	if err != nil {
		return nil, problem.New(problem.Malformed, "%s not hex: got %s", field, clip(s))
	}
	return b, nil
}

// schema returns err with the kind Schema. It returns nil and errors of kind TooLarge unchanged.
func schema(err error) error {
	if err == nil || problem.Is(err, problem.TooLarge) {
		return err
	}
	p := *problem.AsError(err)
	p.Kind = problem.Schema
	return &p
}
