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

// KindReviews is the kind of the stream of a vacant's reviews.
const KindReviews = "rev"

func Stream(target identity.ID) store.Stream { return store.StreamOf(KindReviews, target) }

const partition = "reviews#*" // partition of a target

var (
	// BookDocs contains the reputation of a vacant, computed from the rows of its reviews.
	BookDocs = store.DocKind[reputation.Book]{
		Shape: store.Shape{Name: "reputation", Partition: partition, Sort: "book", Owner: store.OwnedByVacant, Verify: store.VerifyWithRows},
		Codec: store.JSONCodec[reputation.Book](1),
	}
	// ClaimDocs contains the claims of reviews by the position of the review. A claim can be erased.
	ClaimDocs = store.DocKind[string]{
		Shape: store.Shape{Name: "claim of a review", Partition: partition, Sort: "claim#*", Owner: store.OwnedByVacant, Verify: store.VerifyWithRows},
		Codec: store.TextCodec(),
	}
	// ReviewedCallDocs maps the hash of a call's envelope to the position of the call's review, so
	// that a call has at most one. For a blinded review, it also maps the commitment.
	ReviewedCallDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "mark of a reviewed call", Partition: partition, Sort: "call#*", Owner: store.OwnedByVacant, Verify: store.VerifyWithRows},
		Codec: store.CountCodec(),
	}
	// PartyDocs contains the number of a vacant's reviews by each party (judgement.party).
	PartyDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "number of reviews by a party", Partition: partition, Sort: "party#*", Owner: store.OwnedByVacant, Verify: store.VerifySkip},
		Codec: store.CountCodec(),
	}
	// BlindedDocs contains the blinded reviews that wait for further reviewers. The key contains
	// the commitment.
	BlindedDocs = store.DocKind[review.Blinded]{
		Shape: store.Shape{Name: "blinded review", Partition: partition, Sort: "blind#*", Owner: store.OwnedByVacant, Verify: store.VerifySkip},
		Codec: store.JSONCodec[review.Blinded](1),
	}
	// RecentReviewDocs contains the times of the reviews that a reviewer wrote in the last day.
	RecentReviewDocs = store.DocKind[reviewTimes]{
		Shape: store.Shape{Name: "recent reviews of a reviewer", Partition: "reviewer#*", Sort: "recent", Verify: store.VerifySkip},
		Codec: store.JSONCodec[reviewTimes](1),
	}
)

// reviewTimes contains the times of a reviewer's latest reviews, keyed by the short id of the
// target.
type reviewTimes struct {
	ByTarget map[string]gate.Window `json:"taken"`
}

// withReview returns r with a review of target added and without reviews older than a day. ok is
// false if a limit is exceeded.
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
