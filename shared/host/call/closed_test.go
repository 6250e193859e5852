package call_test

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// pages counts the pages that are read.
type pages struct {
	store.Store
	read atomic.Int64
}

func (p *pages) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	p.read.Add(1)
	return p.Store.Rows(ctx, s, from, n, d)
}

// To answer an ask for a call of an old epoch that was closed without a row, the host must not read
// everything since then.
func TestAClosedCallIsToldWithoutReadingAllThatCameSince(t *testing.T) {
	ctx, s := t.Context(), &pages{Store: memory.New()}
	vacant, caller := newKey(t), newKey(t)
	vault, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	behave := func(_ context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
		if e.Payload.Text() == "slow" {
			close(entered)
			<-leave
		}
		return envelope.Message{Parts: []string{"done"}}, nil
	}
	host := call.New(call.Config{
		Store: s, Texts: textkeys.New(s, vault, time.Now, rand.Reader, 24*time.Hour), Now: time.Now, Rand: rand.Reader,
		Directory: call.SingleVacant{ID: vacant.ID(), State: lifecycle.Active, Behaviour: behave, Signer: vacant},
	})
	var prev identity.Hash
	next := func(seq int64, text string) *envelope.Envelope {
		e := &envelope.Envelope{From: caller.ID(), To: vacant.ID(), Seq: seq, Prev: prev, Time: time.Now().UTC().Truncate(time.Microsecond),
			Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}}
		if prev, err = e.Sign(ctx, caller); err != nil {
			t.Fatal(err)
		}
		return e
	}
	slow, done := next(1, "slow"), make(chan call.Outcome)
	go func() { done <- host.Send(ctx, identity.ID{}, slow) }()
	<-entered
	if o := host.Reset(ctx, identity.ID{}, next(1, envelope.ResetText)); o.Problem != nil {
		t.Fatal(o.Problem)
	}
	prev = identity.Hash{}
	const since = 1000
	for seq := range int64(since) {
		if o := host.Send(ctx, identity.ID{}, next(seq+1, "quick")); o.Problem != nil {
			t.Fatal(o.Problem)
		}
	}
	close(leave)
	if o := <-done; o.State != call.Unanswered {
		t.Fatalf("the closed call is %q (%v), want unanswered", o.State, o.Problem)
	}
	s.read.Store(0)
	if o := host.Ask(ctx, identity.ID{}, slow); o.State != call.Unanswered {
		t.Fatalf("Ask() = %q (%v), want unanswered", o.State, o.Problem)
	}
	if n := s.read.Load(); n > 3 {
		t.Errorf("an ask read %d pages, want 3 at most, however much came since", n)
	}
}
