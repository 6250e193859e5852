package graduation

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Separate partitions allow an AWS role to be restricted to one of them.
var (
	StatusDocs = store.DocKind[storedStatus]{
		Shape:      store.Shape{Name: "outcome of a graduation", Partition: KindAttempts + "#*", Sort: "*", Owner: store.OwnedByVacant, Verify: store.VerifyWithRows},
		Codec:      store.JSONCodec[storedStatus](1),
		CheckValue: checkStatus,
	}
	AttemptWindowDocs = store.DocKind[AttemptWindow]{
		Shape: store.Shape{Name: "window of attempts", Partition: "gradtry#*", Sort: "times", Owner: store.OwnedByVacant, Verify: store.VerifyWithRows},
		Codec: store.JSONCodec[AttemptWindow](1),
		CheckValue: func(_ store.Doc, w AttemptWindow) error {
			if len(w.StartTimes) > MaxAttemptsOfParent {
				return problem.Invalid("began", fmt.Sprintf("at most %d", MaxAttemptsOfParent), fmt.Sprint(len(w.StartTimes)))
			}
			return nil
		},
	}
	// WindowDocs contains the times of successful graduations. Only commit writes it, so a role
	// that writes attempts cannot change the limit of successes.
	WindowDocs = store.DocKind[storedWindow]{
		Shape:      store.Shape{Name: "window of graduations", Partition: "gradwin#*", Sort: "window", Owner: store.OwnedByVacant, Verify: store.VerifyWithRows},
		Codec:      store.JSONCodec[storedWindow](1),
		CheckValue: func(_ store.Doc, w storedWindow) error { return w.SlotTimes.Check() },
	}
	// PolicyDocs contains policies. The star in Sort is empty for the host and #TENANT for a
	// tenant.
	PolicyDocs = store.DocKind[storedPolicy]{
		Shape:      store.Shape{Name: "policy of graduations", Partition: "host", Sort: "gate*", Verify: store.VerifyWithRows},
		Codec:      store.JSONCodec[storedPolicy](1),
		CheckValue: func(_ store.Doc, p storedPolicy) error { return p.Policy.Check() },
	}
)

var attemptCodec = store.JSONCodec[storedAttempt](1)

func StatusKey(child identity.ID, position uint64) store.Key {
	return StatusDocs.Key(child.String(), fmt.Sprintf("%016x", position))
}

func AttemptWindowKey(parent identity.ID) store.Key { return AttemptWindowDocs.Key(parent.String()) }

func WindowKey(parent identity.ID) store.Key { return WindowDocs.Key(parent.String()) }

func PolicyKey(tenant string) store.Key {
	if tenant != "" {
		tenant = tenantPrefix + tenant
	}
	return PolicyDocs.Key(tenant)
}

const tenantPrefix = "#"

type storedPolicy struct {
	Policy gate.Policy `json:"policy"`
}

type storedWindow struct {
	SlotTimes gate.Window `json:"taken"`
}

type storedStatus struct {
	Phase            Phase          `json:"state"`
	Step             gate.StepName  `json:"step,omitempty"`
	Refusal          *Refusal       `json:"refusal,omitempty"`
	Findings         *gate.Findings `json:"findings,omitempty"`
	Outcome          *Outcome       `json:"outcome,omitempty"`
	DecidedAt        int64          `json:"decided,omitempty"`
	AcceptedPosition uint64         `json:"accepted,omitempty"`
}

func checkStatus(d store.Doc, s storedStatus) error {
	position, err := strconv.ParseUint(d.Key.Sort, 16, 64)
	switch {
	case err != nil:
		return err
	case !slices.Contains([]Phase{Open, Accepted, Refused, Failed}, s.Phase):
		return errors.New("its state is unknown")
	case (s.Phase == Open) != (s.DecidedAt == 0):
		return errors.New("expected a decision time unless it is open")
	case (s.Phase == Accepted) != (s.Outcome != nil):
		return errors.New("expected an outcome if and only if it is accepted")
	case (s.Phase == Refused || s.Phase == Failed) != (s.Refusal != nil):
		return errors.New("expected a refusal if and only if it is refused or has failed")
	case s.AcceptedPosition >= position:
		return errors.New("expected an accepted attempt at an earlier position")
	}
	return nil
}
