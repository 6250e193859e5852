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
	state lifecycle.State
	card  string // hash in hex; "" if none was signed since birth or graduation
	// capability is the capability since graduation, until a card is signed.
	capability string
	floor      time.Time // earlier signatures are refused
	whole      bool      // every entry is readable
	// deleted: an entry records the deletion.
	deleted bool

	birth     *logbook.Birth // the first entry of a child
	parental  bool           // it had a child
	graduated bool
	plan      identity.Hash // zero if no plan was set
	// exported: its key left this host, so it may have continued elsewhere.
	exported bool
}

// observe records what an entry in owner's logbook says.
func (t *logbookState) observe(e *logbook.Entry, owner identity.ID) error {
	state, says, err := e.State(owner)
	if err != nil {
		return err
	}
	if says {
		t.state = state
	}
	switch e.Kind {
	case logbook.KindCardSigned, logbook.KindPublished:
		v, err := canon.Parse(e.Payload, canon.DefaultLimits())
		hash, _ := v.Get("card_hash")
		t.card, t.capability = hash.Text(), ""
		return err
	case logbook.KindRestored:
		v, err := canon.Parse(e.Payload, canon.DefaultLimits())
		if err != nil {
			return err
		}
		floor, _ := v.Get("signed_after")
		t.floor, err = canon.ParseTime(floor.Text())
		return err
	case logbook.KindKeyExported:
		t.exported = true
	case logbook.KindDeleted:
		t.deleted = true
	}
	return t.observeKin(e, owner)
}

// observeKin records an entry's statements about parents and children, and about the plan.
func (t *logbookState) observeKin(e *logbook.Entry, owner identity.ID) error {
	switch e.Kind {
	case logbook.KindBirth:
		b, err := logbook.ParseBirth(e.Payload)
		t.birth = &b
		return err
	case logbook.KindSpawn:
		_, err := logbook.ParseSpawn(e.Payload)
		t.parental = true
		return err
	case logbook.KindGraduated:
		g, err := logbook.ParseGraduation(e.Payload)
		if err == nil && g.Child == owner {
			t.graduated, t.card, t.capability = true, "", g.Capability
		}
		return err
	case logbook.KindPlanChanged:
		var err error
		t.plan, err = logbook.ParsePlanChanged(e.Payload)
		return err
	}
	return nil
}
