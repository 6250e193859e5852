package reviews

import (
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

const KindReviews = "rev"

func Stream(target identity.ID) store.Stream { return store.StreamOf(KindReviews, target) }

const partition = "reviews#*"

var (
	BookDocs = store.DocKind[reputation.Book]{
		Shape: store.Shape{Name: "reputation", Partition: partition, Sort: "book", Owner: store.OwnedByVacant, Verify: store.VerifyWithRows},
		Codec: store.JSONCodec[reputation.Book](1),
	}
	// ClaimDocs is separate from the rows, so that a claim can be erased.
	ClaimDocs = store.DocKind[string]{
		Shape: store.Shape{Name: "claim of a review", Partition: partition, Sort: "claim#*", Owner: store.OwnedByVacant, Verify: store.VerifyWithRows},
		Codec: store.TextCodec(),
	}
	// ReviewedCallDocs ensures that a call has at most one review.
	ReviewedCallDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "mark of a reviewed call", Partition: partition, Sort: "call#*", Owner: store.OwnedByVacant, Verify: store.VerifyWithRows},
		Codec: store.CountCodec(),
	}
	PartyDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "number of reviews by a party", Partition: partition, Sort: "party#*", Owner: store.OwnedByVacant, Verify: store.VerifySkip},
		Codec: store.CountCodec(),
	}
	BlindedDocs = store.DocKind[review.Blinded]{
		Shape: store.Shape{Name: "blinded review", Partition: partition, Sort: "blind#*", Owner: store.OwnedByVacant, Verify: store.VerifySkip},
		Codec: store.JSONCodec[review.Blinded](1),
	}
	RecentReviewDocs = store.DocKind[reviewTimes]{
		Shape: store.Shape{Name: "recent reviews of a reviewer", Partition: "reviewer#*", Sort: "recent", Verify: store.VerifySkip},
		Codec: store.JSONCodec[reviewTimes](1),
	}
)

// reviewTimes contains a reviewer's latest reviews, keyed by the target's short id.
type reviewTimes struct {
	ByTarget map[string]gate.Window `json:"taken"`
}

// withReview adds a review of target. ok is false if a limit is exceeded.
func (r reviewTimes) withReview(target identity.ID, now time.Time) (next reviewTimes, ok bool) {
	next.ByTarget = map[string]gate.Window{}
	total := 0
	for id, w := range r.ByTarget {
		if w = w.Recent(now); len(w) > 0 {
			next.ByTarget[id] = w
			total += len(w)
		}
	}
	pairCount := len(next.ByTarget[target.Short()])
	next.ByTarget[target.Short()] = next.ByTarget[target.Short()].Add(now)
	return next, pairCount < MaxPerPair && total < MaxPerReviewer
}

func putReviewTimes(tx *store.Tx, k store.Key, r reviewTimes, now time.Time) {
	if r.ByTarget == nil {
		r.ByTarget = map[string]gate.Window{}
	}
	RecentReviewDocs.Put(tx, store.Doc{Key: k, Expires: now.Add(25 * time.Hour).Truncate(time.Second)}, r)
}

func ClaimKey(target identity.ID, position uint64) store.Key {
	return ClaimDocs.Key(target.String(), fmt.Sprintf("%016x", position))
}

func BookKey(target identity.ID) store.Key { return BookDocs.Key(target.String()) }

func ReviewedCallKey(target identity.ID, hash identity.Hash) store.Key {
	return ReviewedCallDocs.Key(target.String(), hash.String())
}
