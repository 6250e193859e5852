package reviews

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// KindReviews is the kind of the stream of a vacant's reviews.
const KindReviews = "rev"

func Stream(target identity.ID) store.Stream { return store.StreamOf(KindReviews, target) }

const partition = "reviews#*" // of the target

// The documents of reviews.
var (
	// BookDocs contains the reputation of a vacant, which follows from the rows of its reviews.
	BookDocs = store.Kind[reputation.Book]{
		Shape: store.Shape{Name: "reputation", Partition: partition, Sort: "book", Of: store.OfVacant, Verify: store.Joined},
		Codec: store.JSON[reputation.Book](1),
	}
	// ClaimDocs contains the claims of reviews by their position. A claim can be erased.
	ClaimDocs = store.Kind[string]{
		Shape: store.Shape{Name: "claim of a review", Partition: partition, Sort: "claim#*", Of: store.OfVacant, Verify: store.Joined},
		Codec: store.Text(),
	}
	// OnceDocs contains the position of the review of a call, by the hash of the call's envelope, and
	// of a blinded review, by its commitment. It ensures that a call is reviewed once.
	OnceDocs = store.Kind[int64]{
		Shape: store.Shape{Name: "mark of a reviewed call", Partition: partition, Sort: "call#*", Of: store.OfVacant, Verify: store.Alone},
		Codec: store.Count(),
	}
	// PartyDocs contains the number of reviews by a party.
	PartyDocs = store.Kind[int64]{
		Shape: store.Shape{Name: "number of reviews by a party", Partition: partition, Sort: "party#*", Of: store.OfVacant, Verify: store.Alone},
		Codec: store.Count(),
	}
	// BlindDocs contains the blinded reviews that wait for others, by their commitment.
	BlindDocs = store.Kind[waiting]{
		Shape: store.Shape{Name: "blinded review", Partition: partition, Sort: "blind#*", Of: store.OfVacant, Verify: store.Unread},
		Codec: store.JSON[waiting](1),
	}
	// ReleaseDocs contains the time of the last release of blinded reviews. Those that came before
	// are counted at this time, also after a crash.
	ReleaseDocs = store.Kind[release]{
		Shape: store.Shape{Name: "release of blinded reviews", Partition: partition, Sort: "released", Of: store.OfVacant, Verify: store.Unread},
		Codec: store.JSON[release](1),
	}
	// RecentDocs contains the reviews that a reviewer wrote in the last day.
	RecentDocs = store.Kind[recent]{
		Shape: store.Shape{Name: "recent reviews of a reviewer", Partition: "reviewer#*", Sort: "recent", Verify: store.Unread},
		Codec: store.JSON[recent](1),
	}
)

type waiting struct {
	Record json.RawMessage `json:"record"`
	Reveal review.Reveal   `json:"reveal"`
	At     time.Time       `json:"at"`
}

type release struct {
	At time.Time `json:"at"`
}

// recent lists the times of reviews in Unix microseconds, and the short ids of their targets.
type recent struct {
	Targets []string `json:"targets"`
	Times   []int64  `json:"times"`
}

// add adds a review. It returns false, and how long to wait, if a limit is reached.
func (r *recent) add(target identity.ID, at time.Time) (ok bool, wait time.Duration) {
	var kept recent
	since, pair := at.Add(-window).UnixMicro(), []int64{}
	for i, t := range r.Times {
		if t <= since { // an entry that is exactly a window old is out
			continue
		}
		kept.Times, kept.Targets = append(kept.Times, t), append(kept.Targets, r.Targets[i])
		if r.Targets[i] == target.Short() {
			pair = append(pair, t)
		}
	}
	left := func(t int64) time.Duration { return time.Duration(t-since) * time.Microsecond }
	if len(pair) >= MaxPair {
		return false, left(pair[0])
	}
	if len(kept.Times) >= MaxReviewer {
		return false, left(kept.Times[0])
	}
	r.Times, r.Targets = append(kept.Times, at.UnixMicro()), append(kept.Targets, target.Short())
	return true, 0
}

func ClaimKey(target identity.ID, position uint64) store.Key {
	return ClaimDocs.Key(target.String(), fmt.Sprintf("%016x", position))
}

func BookKey(target identity.ID) store.Key { return BookDocs.Key(target.String()) }

func OnceKey(target identity.ID, of identity.Hash) store.Key {
	return OnceDocs.Key(target.String(), of.String())
}
