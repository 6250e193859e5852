package task

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// RecentTime is the time for which a turn can be found by what was sent.
const RecentTime = 15 * time.Minute

// Recent are the turns of RecentTime in which one payer sent the same to one vacant. Clients of some
// protocols resend a message without an id, and say only that they do.
//
// A message that is sent for the first time has a document of its own, so that the same messages of a
// payer that come at once do not wait for each other. All repeats of which the first message never
// came share one document, whose version decides between them.
type Recent struct {
	hash    string
	repeats bool
	version uint64 // of the document of repeats
}

// recent is a turn that can be found.
type recent struct {
	Task string    `json:"task"`
	At   time.Time `json:"at"`
}

// repeated sorts after the documents of first messages, which begin with a digit.
const repeated = "repeated"

// Sent returns the place where the next turn is noted in which payer sends what to a vacant.
func Sent(vacant identity.ID, payer, what string) *Recent {
	sum := sha256.Sum256([]byte("vacancy recent v1\x1f" + vacant.String() + "\x1f" + payer + "\x1f" + what))
	return &Recent{hash: hex.EncodeToString(sum[:])}
}

// Repeats returns the newest turn that r finds, for a message that its client sends again: "" if there
// is none. The turn of the message is then noted so that only one of several repeats begins it, and the
// others are refused with Conflict.
func (e *Engine) Repeats(ctx context.Context, r *Recent) (id string, err error) {
	r.repeats = true
	from := e.Now().Add(-RecentTime)
	last, d, err := RecentDocs.Get(ctx, e.Store, RecentDocs.Key(r.hash, repeated))
	if err != nil {
		return "", store.Problem(err)
	}
	r.version = d.Version
	first := RecentDocs.All(r.hash)
	first.Last = repeated
	docs, _, err := e.Store.Docs(ctx, first, 1, "") // the newest
	if err != nil {
		return "", store.Problem(err)
	}
	for _, d := range docs {
		one, err := RecentDocs.Parse(d)
		if err != nil {
			return "", err
		}
		if one.At.After(last.At) {
			last = one
		}
	}
	if last.At.Before(from) {
		return "", nil
	}
	return last.Task, nil
}

// put is the write that notes a turn.
func (r *Recent) put(id string, at time.Time, write store.WriteID) (store.Put, error) {
	b, err := RecentDocs.Encode(recent{id, at})
	if err != nil {
		return store.Put{}, problem.Wrap(problem.Internal, err, "recent turn %s", id)
	}
	p := store.Put{Key: RecentDocs.Key(r.hash, newestFirst(at)+"-"+id), WriteID: write, Data: b, Expires: at.Add(RecentTime).UTC().Truncate(time.Second).Add(time.Second)}
	if r.repeats {
		p.Key, p.If = RecentDocs.Key(r.hash, repeated), r.version
	}
	return p, nil
}
