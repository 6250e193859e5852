// Package upgrade brings the documents of earlier programs to today's form.
//
// The documents of a store have a version, which is the number of the last step that was run over
// them. A step finds out for each document whether it has today's form already, and commits each
// change by itself. So a step that was interrupted runs again from its beginning, and changes only what
// is left. Rows are never changed.
//
// To change the form of stored documents, or their meaning, append a step to steps. Its test upgrades
// documents of the version before.
package upgrade

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/queue/local"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Step is a step of the upgrade. After it, the documents have its number as their version.
type Step struct {
	Number int
	Name   string // what the step changes
	// run is nil if documents need no change, because an absent member has a meaning. Programs of the
	// version before must still be refused: they would drop the member.
	run func(*run, context.Context) error
}

// first is the version of documents whose programs stored no version.
const first = 1

// steps are all steps, in their order.
var steps = []Step{
	{2, "the identity of the host", (*run).identity},
	{3, "tasks of accounts", (*run).tasks}, // before records, whose formats tell which program stored tasks
	{4, "records of vacants", (*run).records},
	{5, "names", (*run).names},
	{6, "the number of venues", (*run).venues},
}

// Current is the version of the documents that this program reads and writes.
var Current = steps[len(steps)-1].Number

// Version is the version of the documents of a store.
type Version struct {
	Version int       `json:"version"`
	From    int       `json:"from,omitempty"` // the version before the last upgrade; 0 if there was none
	At      time.Time `json:"at"`             // when Version was reached
	Program string    `json:"program,omitempty"`
	// Walked is the number of ranges that an incomplete run of the next step has walked, and Cursor its
	// place in the range after them.
	Walked int    `json:"walked,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// VersionDocs has the version of a store's documents. If it is absent, the store is empty, or its
// documents have the version first.
var VersionDocs = store.Kind[Version]{
	Shape: store.Shape{Name: "version of the documents", Partition: "host", Sort: "documents", Verify: store.Alone},
	Codec: store.JSON[Version](1),
}

// Data is a store with what opens and seals its documents.
type Data struct {
	Store store.Store
	Vault custody.Vault
	Texts call.Texts
	// Queued upgrades the messages of the queue in the store. Without it, no task may wait in a queue
	// elsewhere.
	Queued  bool
	Program string // its version
	Log     *slog.Logger
	Now     func() time.Time
	Rand    io.Reader // safe for concurrent use
	// Until, if set, is when Run returns although steps are left, for a process whose time is limited.
	// The next Run continues.
	Until time.Time
	// Progress, if set, is called with the number of documents that a step has visited. Calls may be
	// concurrent.
	Progress func(s Step, visited int)
}

// run is one run of the steps.
type run struct {
	Data
	visited func()
	from    Version // with the place of an earlier run of the step
	walked  int     // number of ranges that this run has walked or passed
	page    int     // number of documents between two checks of Until
}

// errPaused means that a run has stored its place and ends.
var errPaused = errors.New("the time of the run is over")

func (r *run) updater() store.Updater { return store.Updater{Store: r.Store, Rand: r.Rand} }

// Read returns the version of the documents of a store that is not empty. The error is a problem of kind Conflict if it
// is newer than Current.
func Read(ctx context.Context, s store.Reader) (Version, error) {
	v, d, err := VersionDocs.Get(ctx, s, VersionDocs.Key())
	if err == nil && d.Version == 0 {
		v.Version = first
	}
	if err == nil && v.Version > Current {
		err = problem.New(problem.Conflict, "the documents have version %d, and this vacancy reads versions up to %d: use a newer vacancy", v.Version, Current)
	}
	return v, store.Problem(err)
}

// New stores the version of a store that has no documents yet.
func New(ctx context.Context, d Data) (Version, error) {
	r := run{Data: d}
	return r.reach(ctx, Current, Current)
}

// Run brings the documents of a store to the version Current, or to an earlier one if Until comes
// first. It may be called again after an error, and for documents of that version.
func Run(ctx context.Context, d Data) (Version, error) {
	v, err := Read(ctx, d.Store)
	if err != nil {
		return v, err
	}
	from := v.Version
	for _, s := range steps {
		if s.Number <= v.Version || s.run == nil {
			continue
		}
		var visited atomic.Int64
		r := run{Data: d, from: v, page: limitedPage, visited: func() {
			if n := visited.Add(1); d.Progress != nil {
				d.Progress(s, int(n))
			}
		}}
		err := s.run(&r, ctx)
		if errors.Is(err, errPaused) {
			return v, nil
		}
		if err != nil {
			return v, problem.Wrap(problem.Of(err).Kind, err, "the upgrade of %s was interrupted: %s; the next start continues it", s.Name, problem.Of(err).Text())
		}
		if v, err = r.reach(ctx, s.Number, from); err != nil || d.isOver() {
			return v, err
		}
	}
	if v.Version < Current {
		r := run{Data: d}
		return r.reach(ctx, Current, from)
	}
	return v, nil
}

func (d *Data) isOver() bool { return !d.Until.IsZero() && !d.Now().Before(d.Until) }

// Changes reports whether Run changes documents of a version, other than their version.
func Changes(version int) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { return s.Number > version && s.run != nil })
}

// reach stores that the documents have a version.
func (r *run) reach(ctx context.Context, version, from int) (Version, error) {
	v := Version{Version: version, Program: r.Program}
	if from < version {
		v.From = from
	}
	return r.put(ctx, v)
}

func (r *run) put(ctx context.Context, v Version) (Version, error) {
	v.At = r.Now().UTC().Truncate(time.Second)
	err := r.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, d, err := VersionDocs.Get(ctx, tx, VersionDocs.Key())
		VersionDocs.Put(tx, store.Doc{Key: d.Key}, v)
		return err
	})
	return v, store.Problem(err)
}

// atOnce bounds the concurrent changes, which share commits to the disk.
const atOnce = 64

// limitedPage is run.page of a step whose documents need few reads.
const limitedPage = 100

// each calls change for the documents of a range, several at once. Damaged documents are left as they
// are, for verify to report. A range that an earlier run has walked is passed.
func (r *run) each(ctx context.Context, within store.Range, change func(context.Context, store.Doc) error) error {
	n, cursor := store.MaxPage, ""
	if !r.Until.IsZero() {
		n = r.page
	}
	if r.walked++; r.walked <= r.from.Walked {
		return nil
	}
	if r.walked == r.from.Walked+1 {
		cursor = r.from.Cursor
	}
	for {
		docs, next, err := r.Store.Docs(ctx, within, n, cursor)
		if err != nil {
			return store.Problem(err)
		}
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(atOnce)
		for _, d := range docs {
			g.Go(func() error {
				defer r.visited()
				return r.undamaged(ctx, change(ctx, d))
			})
		}
		if err := g.Wait(); err != nil {
			return store.Problem(err)
		}
		if next == "" {
			return nil
		}
		if cursor = next; r.isOver() {
			v := r.from
			v.Walked, v.Cursor = r.walked-1, cursor
			if _, err := r.put(context.WithoutCancel(ctx), v); err != nil {
				return err
			}
			return errPaused
		}
	}
}

func (r *run) undamaged(ctx context.Context, err error) error {
	if problem.Is(err, problem.Damaged) {
		r.Log.WarnContext(ctx, "a damaged document was not upgraded", "cause", err.Error())
		return nil
	}
	return err
}

// update is each for changes of one commit.
func (r *run) update(ctx context.Context, within store.Range, change func(context.Context, *store.Tx, store.Doc) error) error {
	return r.each(ctx, within, func(ctx context.Context, d store.Doc) error {
		return r.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error { return change(ctx, tx, d) })
	})
}

func (r *run) identity(ctx context.Context) error {
	return r.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error { return vacants.UpgradeSelf(ctx, tx, r.Vault) })
}

// hosted are the ranges whose documents lead to all vacants and tombstones.
var hosted = []store.Range{vacants.NameDocs.All(), vacants.FormerDocs.All()}

func (r *run) records(ctx context.Context) error {
	for _, within := range hosted {
		err := r.update(ctx, within, func(ctx context.Context, tx *store.Tx, d store.Doc) error {
			id, err := vacants.NameDocs.Parse(d)
			if err != nil {
				return err
			}
			return vacants.UpgradeRecord(ctx, r.Store, tx, id)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// names upgrades the names in lower case first, because a name with capitals moves to its key in lower
// case only if no vacant has it.
func (r *run) names(ctx context.Context) error {
	for _, within := range hosted {
		err := r.update(ctx, within, func(ctx context.Context, tx *store.Tx, d store.Doc) error {
			if strings.ToLower(d.Key.Sort) != d.Key.Sort {
				return nil
			}
			return vacants.UpgradeName(ctx, tx, d.Key)
		})
		if err != nil {
			return err
		}
	}
	spellings := map[string][]store.Key{} // of names with capitals, by the name in lower case
	for d, err := range store.All(ctx, r.Store, vacants.NameDocs.All()) {
		if err != nil {
			return store.Problem(err)
		}
		if lower := strings.ToLower(d.Key.Sort); lower != d.Key.Sort {
			spellings[lower] = append(spellings[lower], d.Key)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, keys := range spellings {
		g.Go(func() error { return r.undamaged(ctx, vacants.UpgradeSpellings(ctx, r.updater(), keys)) })
	}
	return store.Problem(g.Wait())
}

func (r *run) venues(ctx context.Context) error {
	return registry.UpgradeVenueCount(ctx, r.updater())
}

func (r *run) tasks(ctx context.Context) error {
	var accounts []string
	for id, err := range billing.TenantDocs.Each(ctx, r.Store, billing.TenantDocs.All()) {
		if err != nil {
			return err
		}
		accounts = append(accounts, id)
	}
	if len(accounts) == 0 {
		return nil
	}
	r.page = max(1, limitedPage/len(accounts))
	engine := task.New(task.Config{Store: r.Store, Texts: r.Texts, Log: r.Log, Now: r.Now, Rand: r.Rand})
	for _, within := range hosted {
		err := r.each(ctx, within, func(ctx context.Context, d store.Doc) error {
			id, err := vacants.NameDocs.Parse(d)
			if err != nil {
				return err
			}
			// Programs that stored records of today's format stored tasks under their owner of today.
			if earlier, err := vacants.HasEarlierRecord(ctx, r.Store, id); err != nil || !earlier {
				return err
			}
			for _, a := range accounts {
				if err := r.undamaged(ctx, engine.UpgradeTasks(ctx, id, a)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if !r.Queued {
		return nil
	}
	return r.update(ctx, local.MessageDocs.All(), func(ctx context.Context, tx *store.Tx, d store.Doc) error {
		d, err := tx.Doc(ctx, d.Key)
		if err != nil || d.Version == 0 {
			return err
		}
		if text := task.UpgradeMessage(string(d.Data), accounts); text != string(d.Data) {
			d.Data = []byte(text)
			tx.Put(d)
		}
		return nil
	})
}
