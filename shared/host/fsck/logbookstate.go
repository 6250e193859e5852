package fsck

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// logbookState is the state of a vacant according to its logbook.
type logbookState struct {
	state    lifecycle.State
	cardHash string // hex, or "" if no card was signed since the birth or graduation
	// capability is the text with which the vacant graduated. It is "" if a card was signed since
	// then.
	capability   string
	refusedUntil time.Time // messages signed until this time are refused
	isComplete   bool
	deleted      bool

	birth     *logbook.Birth
	hasChild  bool
	graduated bool
	planHash  identity.Hash
	// keyExported means that the vacant may have continued on another host.
	keyExported bool
}

func (t *logbookState) applyEntry(e *logbook.Entry, owner identity.ID) error {
	state, hasState, err := e.StateAfter(owner)
	if err != nil {
		return err
	}
	if hasState {
		t.state = state
	}
	switch e.Kind {
	case logbook.KindCardSigned, logbook.KindPublished:
		v, err := canon.Parse(e.Payload, canon.DefaultLimits())
		hash, _ := v.Get("card_hash")
		t.cardHash, t.capability = hash.Text(), ""
		return err
	case logbook.KindRestored:
		v, err := canon.Parse(e.Payload, canon.DefaultLimits())
		if err != nil {
			return err
		}
		floor, _ := v.Get("signed_after")
		t.refusedUntil, err = canon.ParseTime(floor.Text())
		return err
	case logbook.KindKeyExported:
		t.keyExported = true
	case logbook.KindDeleted:
		t.deleted = true
	}
	return t.applyCompositeEntry(e, owner)
}

func (t *logbookState) applyCompositeEntry(e *logbook.Entry, owner identity.ID) error {
	switch e.Kind {
	case logbook.KindBirth:
		b, err := logbook.ParseBirth(e.Payload)
		t.birth = &b
		return err
	case logbook.KindSpawn:
		_, err := logbook.ParseSpawn(e.Payload)
		t.hasChild = true
		return err
	case logbook.KindGraduated:
		g, err := logbook.ParseGraduation(e.Payload)
		if err == nil && g.Child == owner {
			t.graduated, t.cardHash, t.capability = true, "", g.Capability
		}
		return err
	case logbook.KindPlanChanged:
		var err error
		t.planHash, err = logbook.ParsePlanChanged(e.Payload)
		return err
	}
	return nil
}
