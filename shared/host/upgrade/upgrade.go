// Package upgrade converts the documents of earlier versions of the program to the current form. An
// interrupted step can run again, because it changes only documents that do not have the current
// form. To change the form of stored documents, append a step to steps.
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

type Step struct {
	Number int
	Name   string
	// If apply is nil, the step only raises the version, so that earlier programs, which would drop
	// new members, refuse the documents.
	apply func(*runState, context.Context) error
}

// firstVersion is the version of documents without a stored version.
const firstVersion = 1

var steps = []Step{
	{2, "the identity of the host", (*runState).upgradeIdentity},
	{3, "tasks of accounts", (*runState).upgradeTasks}, // precedes records, because the format of a record shows which program stored the tasks
	{4, "records of vacants", (*runState).upgradeRecords},
	{5, "names", (*runState).upgradeNames},
	{6, "the number of venues", (*runState).upgradeVenueCount},
	{7, "dispatched tasks", nil}, // an earlier program would drop their settings
	{8, "reviews", nil},          // an earlier program would report their rows as damage
	{9, "turns of workers", nil}, // an earlier program would not know the substrate
}

var CurrentVersion = steps[len(steps)-1].Number

type Version struct {
	Version   int       `json:"version"`
	Previous  int       `json:"from,omitempty"`
	ReachedAt time.Time `json:"at"`
	Program   string    `json:"program,omitempty"`
	// WalkedRanges and Cursor are the position of an incomplete run of the next step.
	WalkedRanges int    `json:"walked,omitempty"`
	Cursor       string `json:"cursor,omitempty"`
}

var VersionDocs = store.DocKind[Version]{
	Shape: store.Shape{Name: "version of the documents", Partition: "host", Sort: "documents", Verify: store.VerifyParse},
	Codec: store.JSONCodec[Version](1),
}

type Data struct {
	Store store.Store
	Vault custody.Vault
	Texts call.Texts
	// HasQueue means that the queue is in the store. If it is false, the external queue must be
	// empty.
	HasQueue bool
	Program  string
	Log      *slog.Logger
	Now      func() time.Time
	Rand     io.Reader // safe for concurrent use
	// Run returns at StopAt even if steps remain.
	StopAt time.Time
	// Progress may be nil and may be called concurrently.
	Progress func(s Step, visited int)
}

type runState struct {
	Data
	countVisited  func()
	storedVersion Version
	walkedRanges  int
	pageSize      int
}

var errPaused = errors.New("the time of the run is over")

func (r *runState) updater() store.Updater { return store.Updater{Store: r.Store, Rand: r.Rand} }

// ReadVersion returns the version of a store that is not empty. If the version is newer than
// CurrentVersion, the error is of kind Conflict.
func ReadVersion(ctx context.Context, s store.Reader) (Version, error) {
	v, d, err := VersionDocs.Get(ctx, s, VersionDocs.Key())
	if err == nil && d.Version == 0 {
		v.Version = firstVersion
	}
	if err == nil && v.Version > CurrentVersion {
		err = problem.New(problem.Conflict, "the documents have version %d, and this vacancy reads versions up to %d: use a newer vacancy", v.Version, CurrentVersion)
	}
	return v, store.AsProblem(err)
}

func InitVersion(ctx context.Context, d Data) (Version, error) {
	r := runState{Data: d}
	return r.storeVersion(ctx, CurrentVersion, CurrentVersion)
}

// Run upgrades the documents of a store to CurrentVersion, unless StopAt is reached first.
func Run(ctx context.Context, d Data) (Version, error) {
	v, err := ReadVersion(ctx, d.Store)
	if err != nil {
		return v, err
	}
	previous := v.Version
	for _, s := range steps {
		if s.Number <= v.Version || s.apply == nil {
			continue
		}
		var visited atomic.Int64
		r := runState{Data: d, storedVersion: v, pageSize: limitedPageSize, countVisited: func() {
			if n := visited.Add(1); d.Progress != nil {
				d.Progress(s, int(n))
			}
		}}
		err := s.apply(&r, ctx)
		if errors.Is(err, errPaused) {
			return v, nil
		}
		if err != nil {
			return v, problem.Wrap(problem.AsError(err).Kind, err, "the upgrade of %s was interrupted: %s; the next start continues it", s.Name, problem.AsError(err).Text())
		}
		if v, err = r.storeVersion(ctx, s.Number, previous); err != nil || d.isTimeOver() {
			return v, err
		}
	}
	if v.Version < CurrentVersion {
		r := runState{Data: d}
		return r.storeVersion(ctx, CurrentVersion, previous)
	}
	return v, nil
}

func (d *Data) isTimeOver() bool { return !d.StopAt.IsZero() && !d.Now().Before(d.StopAt) }

func ChangesDocuments(version int) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { return s.Number > version && s.apply != nil })
}

func (r *runState) storeVersion(ctx context.Context, version, previous int) (Version, error) {
	v := Version{Version: version, Program: r.Program}
	if previous < version {
		v.Previous = previous
	}
	return r.writeVersion(ctx, v)
}

func (r *runState) writeVersion(ctx context.Context, v Version) (Version, error) {
	v.ReachedAt = r.Now().UTC().Truncate(time.Second)
	err := r.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, d, err := VersionDocs.Get(ctx, tx, VersionDocs.Key())
		VersionDocs.Put(tx, store.Doc{Key: d.Key}, v)
		return err
	})
	return v, store.AsProblem(err)
}

const maxConcurrentChanges = 64

const limitedPageSize = 100

// forEachDocument calls change concurrently for the documents of a range. It skips damaged
// documents, and ranges that an earlier run has completed.
func (r *runState) forEachDocument(ctx context.Context, docRange store.Range, change func(context.Context, store.Doc) error) error {
	pageSize, cursor := store.MaxPage, ""
	if !r.StopAt.IsZero() {
		pageSize = r.pageSize
	}
	if r.walkedRanges++; r.walkedRanges <= r.storedVersion.WalkedRanges {
		return nil
	}
	if r.walkedRanges == r.storedVersion.WalkedRanges+1 {
		cursor = r.storedVersion.Cursor
	}
	for {
		docs, next, err := r.Store.Docs(ctx, docRange, pageSize, cursor)
		if err != nil {
			return store.AsProblem(err)
		}
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(maxConcurrentChanges)
		for _, d := range docs {
			g.Go(func() error {
				defer r.countVisited()
				return r.skipDamaged(ctx, change(ctx, d))
			})
		}
		if err := g.Wait(); err != nil {
			return store.AsProblem(err)
		}
		if next == "" {
			return nil
		}
		if cursor = next; r.isTimeOver() {
			v := r.storedVersion
			v.WalkedRanges, v.Cursor = r.walkedRanges-1, cursor
			if _, err := r.writeVersion(context.WithoutCancel(ctx), v); err != nil {
				return err
			}
			return errPaused
		}
	}
}

func (r *runState) skipDamaged(ctx context.Context, err error) error {
	if problem.Is(err, problem.Damaged) {
		r.Log.WarnContext(ctx, "a damaged document was not upgraded", "cause", err.Error())
		return nil
	}
	return err
}

func (r *runState) updateEachDocument(ctx context.Context, docRange store.Range, change func(context.Context, *store.Tx, store.Doc) error) error {
	return r.forEachDocument(ctx, docRange, func(ctx context.Context, d store.Doc) error {
		return r.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error { return change(ctx, tx, d) })
	})
}

func (r *runState) upgradeIdentity(ctx context.Context) error {
	return r.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error { return vacants.UpgradeHostIdentity(ctx, tx, r.Vault) })
}

var vacantNameRanges = []store.Range{vacants.NameDocs.Range(), vacants.NamelessTombstoneDocs.Range()}

func (r *runState) upgradeRecords(ctx context.Context) error {
	for _, docRange := range vacantNameRanges {
		err := r.updateEachDocument(ctx, docRange, func(ctx context.Context, tx *store.Tx, d store.Doc) error {
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

func (r *runState) upgradeNames(ctx context.Context) error {
	// Names in lower case come first, because a name with capitals moves only if its key in lower
	// case is free.
	for _, docRange := range vacantNameRanges {
		err := r.updateEachDocument(ctx, docRange, func(ctx context.Context, tx *store.Tx, d store.Doc) error {
			if strings.ToLower(d.Key.Sort) != d.Key.Sort {
				return nil
			}
			return vacants.UpgradeName(ctx, tx, d.Key)
		})
		if err != nil {
			return err
		}
	}
	spellings := map[string][]store.Key{}
	for d, err := range store.Documents(ctx, r.Store, vacants.NameDocs.Range()) {
		if err != nil {
			return store.AsProblem(err)
		}
		if lower := strings.ToLower(d.Key.Sort); lower != d.Key.Sort {
			spellings[lower] = append(spellings[lower], d.Key)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxConcurrentChanges)
	for _, keys := range spellings {
		g.Go(func() error { return r.skipDamaged(ctx, vacants.UpgradeSpellings(ctx, r.updater(), keys)) })
	}
	return store.AsProblem(g.Wait())
}

func (r *runState) upgradeVenueCount(ctx context.Context) error {
	return registry.UpgradeListedCount(ctx, r.updater())
}

func (r *runState) upgradeTasks(ctx context.Context) error {
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
	r.pageSize = max(1, limitedPageSize/len(accounts))
	engine := task.New(task.Config{Store: r.Store, Texts: r.Texts, Log: r.Log, Now: r.Now, Rand: r.Rand})
	for _, docRange := range vacantNameRanges {
		err := r.forEachDocument(ctx, docRange, func(ctx context.Context, d store.Doc) error {
			id, err := vacants.NameDocs.Parse(d)
			if err != nil {
				return err
			}
			// Programs of the current record format also stored tasks under their current owner.
			if hasEarlier, err := vacants.HasOldRecordFormat(ctx, r.Store, id); err != nil || !hasEarlier {
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
	return r.updateEachDocument(ctx, local.MessageDocs.Range(), func(ctx context.Context, tx *store.Tx, d store.Doc) error {
		d, err := tx.Doc(ctx, d.Key)
		if err != nil || d.Version == 0 {
			return err
		}
		if text := task.UpgradeQueueMessage(string(d.Data), accounts); text != string(d.Data) {
			d.Data = []byte(text)
			tx.Put(d)
		}
		return nil
	})
}
