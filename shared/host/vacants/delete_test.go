package vacants_test

import (
	"context"
	"crypto/rand"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// archived makes an ARCHIVED vacant that was imported with a key and a chain.
func archived(t *testing.T, v *vacants.Directory, key *identity.Key) vacants.Record {
	t.Helper()
	for _, command := range []string{"import", "sink", "archive"} {
		if err := prepare(t, v, command, key); err != nil {
			t.Fatalf("%s = %v", command, err)
		}
	}
	return namedVacant(t, v, "demo")
}

func TestADeletedVacantLeavesATombstoneAndItsLogbook(t *testing.T) {
	s, va, key := memory.New(), vault(t), newKey(t)
	v := host(t, s, va, newClock().now, hostURL)
	before := archived(t, v, key)
	r, err := v.Delete(t.Context(), before.ID)
	must(t, err)
	wantTombstone(t, s, r)
	if r.ID != before.ID || r.Name != "demo" || r.State != lifecycle.Archived || !r.DeletedAt.Equal(newClock().t) || !r.CreatedAt.Equal(before.CreatedAt) {
		t.Errorf("tombstone = %v, %s, deleted %v", r, r.State, r.DeletedAt)
	}
	lines := story(t, v, r.ID)
	if want := logbook.KindDeleted + ` {"name":"demo","vacant_id":"` + r.ID.String() + `"}`; lines[len(lines)-1] != want {
		t.Errorf("last entry = %s, want %s", lines[len(lines)-1], want)
	}
	if again, err := v.Delete(t.Context(), r.ID); err != nil || again.ChangedAt != r.ChangedAt || len(log(t, v, r.ID)) != len(lines) {
		t.Errorf("deleted again = %v, %d entries, want nothing done", err, len(log(t, v, r.ID)))
	}
	wantWhole(t, s, v, key.ID())
}

func TestTheIDOfADeletedVacantIsTakenForEver(t *testing.T) {
	s, va, key := memory.New(), vault(t), newKey(t)
	v := host(t, s, va, newClock().now, hostURL)
	do(t, v, archived(t, v, key).ID, "delete")
	other := host(t, s, va, newClock().now, hostURL)
	for name, spec := range map[string]vacants.CreateSpec{
		"as it was":        {Name: "demo", Capability: "c", Substrate: "echo", Key: key, Logbook: book(t, key, lifecycle.Active)},
		"under a new name": {Name: "phoenix", Capability: "c", Substrate: "echo", Key: key},
	} {
		_, err := other.Create(t.Context(), spec)
		wantKind(t, "Create() of the id "+name, err, problem.Gone)
	}
	for _, command := range []string{"pause", "resume", "sink"} {
		_, err := run(v, command)(t.Context(), key.ID())
		wantKind(t, command, err, problem.Conflict)
	}
	_, err := v.Delete(t.Context(), newKey(t).ID())
	wantKind(t, "Delete() of a stranger", err, problem.NotFound)
	if _, _, err := v.Export(t.Context(), key.ID()); !problem.Is(err, problem.Gone) {
		t.Errorf("Export() = %v, want gone", err)
	}
	for what, run := range map[string]func(context.Context) (int, error){"RaiseFloors": func(ctx context.Context) (int, error) {
		all, err := v.RaiseFloors(ctx)
		return all.Vacants, err
	}, "Rebase": host(t, s, va, newClock().now, "https://elsewhere.example").UpdateCardURLs} {
		if n, err := run(t.Context()); n != 0 || err != nil {
			t.Errorf("%s() = %d, %v, want nothing to do", what, n, err)
		}
	}
	if open, err := v.ListOpen(t.Context(), 10); err != nil || len(open) != 0 {
		t.Errorf("ListOpen() = %v, %v, want none", open, err)
	}
}

// docs counts the documents that are read.
type docs struct {
	store.Store
	read atomic.Int64
}

func (d *docs) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	d.read.Add(1)
	return d.Store.Doc(ctx, k)
}

// The holder of a parent's key can sign for any number of children that do not
// exist.
func TestAParentOfManyChildrenElsewhereIsDeletedAfterItsOwn(t *testing.T) {
	d := &docs{Store: memory.New()}
	v := host(t, d, vault(t), newClock().now, hostURL)
	parent, child := family(t, v)
	const remote = 5000
	for i := range remote { // before and after the child's
		id := identity.ID{byte(i % 256), byte(i / 256), 1}
		must(t, d.Commit(t.Context(), store.Put{Key: registry.ChildEdgeKey(parent.ID, id), WriteID: store.WriteID{1}, Data: []byte{1}}))
	}
	do(t, v, parent.ID, "sink", "archive")
	do(t, v, child.ID, "sink", "archive")
	d.read.Store(0)
	_, err := v.Delete(t.Context(), parent.ID)
	if !problem.Is(err, problem.Conflict) || !strings.Contains(problem.AsError(err).Text(), "children here: kid;") {
		t.Errorf("Delete() of the parent = %v, want a conflict that names kid", err)
	}
	do(t, v, child.ID, "delete")
	do(t, v, parent.ID, "delete")
	if n := d.read.Load(); n > remote/2 {
		t.Errorf("the three read %d documents, want fewer than there are edges", n)
	}
}

func TestADeletedVacantAnswersAsOneThatIsArchived(t *testing.T) {
	s, va, key := memory.New(), vault(t), newKey(t)
	v := host(t, s, va, newClock().now, hostURL)
	id := archived(t, v, key).ID
	h := pipeline(s, va, v)
	caller := newKey(t)
	e := signed(t, caller, id, "hi", newClock().t)
	before := h.Send(t.Context(), id, e)
	do(t, v, id, "delete")
	after := pipeline(s, va, host(t, s, va, newClock().now, hostURL)).Send(t.Context(), id, e)
	if before.Problem == nil || after.Problem == nil || !problem.Is(after.Problem, problem.Gone) {
		t.Fatalf("Send() = %v before, %v after, want gone", before.Problem, after.Problem)
	}
	if diff := cmp.Diff(before.Problem.Text(), after.Problem.Text()); diff != "" {
		t.Errorf("refusal (-archived +deleted):\n%s", diff)
	}
}

// pipeline is the call pipeline over v.
func pipeline(s *memory.Store, va custody.Vault, v *vacants.Directory) *call.Host {
	return call.New(call.Config{
		Store: s, Directory: answering(v), Texts: textkeys.New(s, va, newClock().now, rand.Reader, 0), Now: newClock().now, Rand: rand.Reader,
		Self: v.HostID, Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
}

// signed is the first call of a pair.
func signed(t *testing.T, from *identity.Key, to identity.ID, text string, at time.Time) *envelope.Envelope {
	t.Helper()
	e := &envelope.Envelope{From: from.ID(), To: to, Seq: 1, Time: at, Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}}
	must(t, errorOf(e.Sign(t.Context(), from)))
	return e
}
