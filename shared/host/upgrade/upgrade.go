// Package upgrade converts the documents of earlier versions of the program to the current form.
//
// The documents of a store have a version, which is the number of the last step that was applied to
// them. A step checks for each document whether the document already has the current form, and
// commits each change separately. If a step is interrupted, it can therefore run again, and changes
// only the remaining documents. Rows are never changed.
//
// To change the form or the meaning of stored documents, append a step to steps. The test of the
// step should upgrade documents of the previous version.
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

// Step is a step of the upgrade. Its number becomes the version of the documents.
type Step struct {
	Number int
	Name   string // documents that the step changes
	// run is nil if documents without a new member remain valid and need no change. Such a step is
	// still necessary, because programs of the previous version would drop the member and must refuse
	// the documents.
	run func(*run, context.Context) error
}

// first is the version of documents from programs that did not store a version.
const first = 1

var steps = []Step{
	{2, "the identity of the host", (*run).identity},
	{3, "tasks of accounts", (*run).tasks}, // precedes records, because the format of a record shows which program stored the tasks
	{4, "records of vacants", (*run).records},
	{5, "names", (*run).names},
	{6, "the number of venues", (*run).venues},
	{7, "dispatched tasks", nil}, // an earlier program would drop their settings
	{8, "reviews", nil},          // an earlier program would report their rows as damage
	{9, "turns of workers", nil}, // an earlier program knows neither the substrate nor the servers of a task
}

// Current is the version of the documents that this program supports.
var Current = steps[len(steps)-1].Number

// Version is the version of the documents of a store.
type Version struct {
	Version int       `json:"version"`
	From    int       `json:"from,omitempty"` // version before the last upgrade, or 0
	At      time.Time `json:"at"`             // time when Version was reached
	Program string    `json:"program,omitempty"`
	// WalkedRanges is the number of ranges that an incomplete run of the next step has completed. Cursor
	// is the run's position in the next range.
	WalkedRanges int    `json:"walked,omitempty"`
	Cursor       string `json:"cursor,omitempty"`
}

// VersionDocs contains the version of a store's documents. If the document is missing, the store is
// empty or its documents have the version first.
var VersionDocs = store.Kind[Version]{
	Shape: store.Shape{Name: "version of the documents", Partition: "host", Sort: "documents", Verify: store.VerifyParse},
	Codec: store.JSONCodec[Version](1),
}

// Data is a store together with the keys and services that an upgrade needs.
type Data struct {
	Store store.Store
	Vault custody.Vault
	Texts call.Texts
	// HasQueue means that the messages of the queue are in the store and must be upgraded. If it is
	// false, no tasks may be waiting in an external queue.
	HasQueue bool
	Program  string // version of the program
	Log      *slog.Logger
	Now      func() time.Time
	Rand     io.Reader // safe for concurrent use
	// Until limits the time of a Run, for example in a process with a time limit. At this time Run
	// returns even if steps remain, and the next Run continues. The zero time means no limit.
	Until time.Time
	// Progress is called with the number of documents that a step has visited, possibly
	// concurrently. It may be nil.
	Progress func(s Step, visited int)
}

// run is the state of a Run.
type run struct {
	Data
	visited func()  // called after each document, possibly concurrently
	from    Version // stored version, with the position of an earlier run of the same step
	walked  int     // number of ranges that this run has completed or skipped
	page    int     // number of documents between two checks of Until
}

// errPaused is returned after a run has stored its position because its time is over.
var errPaused = errors.New("the time of the run is over")

func (r *run) updater() store.Updater { return store.Updater{Store: r.Store, Rand: r.Rand} }

// Read returns the version of the documents of a store that is not empty. If it is newer than
// Current, the error is of kind Conflict.
func Read(ctx context.Context, s store.Reader) (Version, error) {
	v, d, err := VersionDocs.Get(ctx, s, VersionDocs.Key())
	if err == nil && d.Version == 0 {
		v.Version = first
	}
	if err == nil && v.Version > Current {
		err = problem.New(problem.Conflict, "the documents have version %d, and this vacancy reads versions up to %d: use a newer vacancy", v.Version, Current)
	}
	return v, store.AsProblem(err)
}

func New(ctx context.Context, d Data) (Version, error) {
	r := run{Data: d}
	return r.storeVersion(ctx, Current, Current)
}

// Run upgrades the documents of a store to the version Current, or to an earlier version if Until is
// reached first. It may be called again after an error. It has no effect if the documents already have this
// version.
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
			return v, problem.Wrap(problem.AsError(err).Kind, err, "the upgrade of %s was interrupted: %s; the next start continues it", s.Name, problem.AsError(err).Text())
		}
		if v, err = r.storeVersion(ctx, s.Number, from); err != nil || d.isOver() {
			return v, err
		}
	}
	if v.Version < Current {
		r := run{Data: d}
		return r.storeVersion(ctx, Current, from)
	}
	return v, nil
}

func (d *Data) isOver() bool { return !d.Until.IsZero() && !d.Now().Before(d.Until) }

// ChangesDocuments reports whether Run would change documents of a version, apart from the version itself.
func ChangesDocuments(version int) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { return s.Number > version && s.run != nil })
}

func (r *run) storeVersion(ctx context.Context, version, from int) (Version, error) {
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
	return v, store.AsProblem(err)
}

// atOnce limits the concurrent changes. Concurrent changes share commits to the disk.
const atOnce = 64

// limitedPage is the page size if Until is set, for steps that need few reads per document.
const limitedPage = 100

// each calls change concurrently for the documents of a range. It skips damaged documents, which
// verify reports, and ranges that an earlier run has completed.
func (r *run) each(ctx context.Context, within store.Range, change func(context.Context, store.Doc) error) error {
	n, cursor := store.MaxPage, ""
	if !r.Until.IsZero() {
		n = r.page
	}
	if r.walked++; r.walked <= r.from.WalkedRanges {
		return nil
	}
	if r.walked == r.from.WalkedRanges+1 {
		cursor = r.from.Cursor
	}
	for {
		docs, next, err := r.Store.Docs(ctx, within, n, cursor)
		if err != nil {
			return store.AsProblem(err)
		}
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(atOnce)
		for _, d := range docs {
			g.Go(func() error {
				defer r.visited()
				return r.skipDamaged(ctx, change(ctx, d))
			})
		}
		if err := g.Wait(); err != nil {
			return store.AsProblem(err)
		}
		if next == "" {
			return nil
		}
		if cursor = next; r.isOver() {
			v := r.from
			v.WalkedRanges, v.Cursor = r.walked-1, cursor
			if _, err := r.put(context.WithoutCancel(ctx), v); err != nil {
				return err
			}
			return errPaused
		}
	}
}

func (r *run) skipDamaged(ctx context.Context, err error) error {
	if problem.Is(err, problem.Damaged) {
		r.Log.WarnContext(ctx, "a damaged document was not upgraded", "cause", err.Error())
		return nil
	}
	return err
}

func (r *run) update(ctx context.Context, within store.Range, change func(context.Context, *store.Tx, store.Doc) error) error {
	return r.each(ctx, within, func(ctx context.Context, d store.Doc) error {
		return r.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error { return change(ctx, tx, d) })
	})
}

func (r *run) identity(ctx context.Context) error {
	return r.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error { return vacants.UpgradeSelf(ctx, tx, r.Vault) })
}

// hosted contains the ranges of names through which all vacants, including deleted ones, are found.
var hosted = []store.Range{vacants.NameDocs.Range(), vacants.FormerDocs.Range()}

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

func (r *run) names(ctx context.Context) error {
	// Names in lower case come first, because a name with capitals moves to its key in lower case
	// only if no vacant has that name.
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
	spellings := map[string][]store.Key{} // keys of names with capitals, keyed by the name in lower case
	for d, err := range store.Documents(ctx, r.Store, vacants.NameDocs.Range()) {
		if err != nil {
			return store.AsProblem(err)
		}
		if lower := strings.ToLower(d.Key.Sort); lower != d.Key.Sort {
			spellings[lower] = append(spellings[lower], d.Key)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, keys := range spellings {
		g.Go(func() error { return r.skipDamaged(ctx, vacants.UpgradeSpellings(ctx, r.updater(), keys)) })
	}
	return store.AsProblem(g.Wait())
}

func (r *run) venues(ctx context.Context) error {
	return registry.UpgradeVenueCount(ctx, r.updater())
}

func (r *run) tasks(ctx context.Context) error {
	var accounts []string
	for id, err := range billing.TenantDocs.Each(ctx, r.Store, billing.TenantDocs.Range()) {
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
			// Programs that stored records in the current format also stored tasks under their
			// current owner.
			if earlier, err := vacants.HasEarlierRecord(ctx, r.Store, id); err != nil || !earlier {
				return err
			}
			for _, a := range accounts {
				if err := r.skipDamaged(ctx, engine.UpgradeTasks(ctx, id, a)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if !r.HasQueue {
		return nil
	}
	return r.update(ctx, local.MessageDocs.Range(), func(ctx context.Context, tx *store.Tx, d store.Doc) error {
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
