package fsck

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// One commit writes an event between a parent and a child on this host to both logbooks, for
// example SPAWN and BIRTH. The check compares only sums over these entries to save memory.

type edge struct{ parent, child identity.ID }

// The constants are indexes of entryKindPairs. The first kind of a pair is in the parent's logbook.
const (
	births = iota
	delegations
	graduations
	entryKindPairCount
)

func entryKindPairs() [entryKindPairCount][2]string {
	return [entryKindPairCount][2]string{
		births:      {logbook.KindSpawn, logbook.KindBirth},
		delegations: {logbook.KindDelegate, logbook.KindExecute},
		graduations: {logbook.KindGraduated, logbook.KindGraduated},
	}
}

// entryTotals contains the number of entries and an order-independent sum of their hashes.
type entryTotals struct {
	count uint64
	sum   hashSum
}

func (t *entryTotals) add(statement []byte) {
	t.count++
	h := identity.Sum(statement)
	for i := range t.sum { // XOR would not detect entries that occur twice
		t.sum[i] += h[i]
	}
}

type edgeTotals struct {
	parent, child [entryKindPairCount]entryTotals
}

// inferenceTotals summarizes one vacant's answers, logbook entries, known agent versions and cost in
// micro-dollars.
type inferenceTotals struct{ answers, entries, versions, cost uint64 }

// kinship collects the logbook data that is compared after all streams were read.
type kinship struct {
	edges           map[edge]*edgeTotals
	inferenceTotals map[identity.ID]*inferenceTotals
	lastPositions   map[identity.ID]uint64 // position of the last entry that was read
	incomparable    map[identity.ID]bool
}

func (k *kinship) recordEntry(e *logbook.Entry, position uint64, owner identity.ID) {
	kind, inParentLogbook := births, true
	var kinEdge edge
	var statement []byte
	switch e.Kind {
	case logbook.KindSpawn:
		s, err := logbook.ParseSpawn(e.Payload)
		if err != nil {
			return
		}
		kinEdge, statement = edge{owner, s.Child}, []byte(s.BirthPath)
	case logbook.KindBirth:
		b, err := logbook.ParseBirth(e.Payload)
		if err != nil {
			return
		}
		kinEdge, statement, inParentLogbook = edge{b.Parent, owner}, []byte(b.BirthPath), false
	case logbook.KindDelegate, logbook.KindExecute:
		kind, inParentLogbook = delegations, e.Kind == logbook.KindDelegate
		other, task, ok := parseDelegation(e.Payload, inParentLogbook)
		if !ok {
			return
		}
		if kinEdge, statement = (edge{owner, other}), task; !inParentLogbook {
			kinEdge = edge{other, owner}
		}
	case logbook.KindGraduated:
		g, err := logbook.ParseGraduation(e.Payload)
		if err != nil || g.Parent != owner && g.Child != owner {
			return
		}
		kind, kinEdge, statement, inParentLogbook = graduations, edge{g.Parent, g.Child}, []byte(g.Capability), g.Parent == owner
	case logbook.KindInference:
		if _, err := logbook.ParseInference(e.Payload); err == nil {
			k.lastPositions[owner] = position
			k.inferenceTotalsOf(owner).entries++
		}
		return
	default:
		return
	}
	k.lastPositions[owner] = position
	totals := k.edges[kinEdge]
	if totals == nil {
		totals = &edgeTotals{}
		k.edges[kinEdge] = totals
	}
	if inParentLogbook {
		totals.parent[kind].add(statement)
	} else {
		totals.child[kind].add(statement)
	}
}

func parseDelegation(payload []byte, inParentLogbook bool) (other identity.ID, statement []byte, ok bool) {
	v, err := canon.Parse(payload, canon.DefaultLimits())
	if err != nil {
		return other, nil, false
	}
	key := "parent_id"
	if inParentLogbook {
		key = "child_id"
	}
	id, _ := v.Get(key)
	if other, err = identity.ParseID(id.Text()); err != nil {
		return other, nil, false
	}
	kind, _ := v.Get("subtask_kind")
	task, _ := v.Get("task_hash")
	return other, canon.NewArray(kind, task).AppendCJ(nil), true
}

func (k *kinship) inferenceTotalsOf(id identity.ID) *inferenceTotals {
	t := k.inferenceTotals[id]
	if t == nil {
		t = &inferenceTotals{}
		k.inferenceTotals[id] = t
	}
	return t
}

// checkDailyTotals allows totals above the cost of the rows, because the reservation of a crashed
// call remains spent.
func (r *run) checkDailyTotals(ctx context.Context) error {
	for _, id := range r.kin.vacants() {
		cost := r.kin.inferenceTotals[id].cost
		if cost == 0 {
			continue
		}
		total, err := r.dailyTotal(ctx, id)
		if err != nil {
			return err
		}
		if total < cost {
			r.addCertainFinding(newDocumentFinding(store.Key{Partition: spend.VacantTotalDocs.Range(id.String()).Partition}, Spend, fmt.Sprintf("at least %s, the cost of the vacant's rows", money.Amount(cost)), money.Amount(total).String()))
		}
	}
	return nil
}

func (r *run) dailyTotal(ctx context.Context, id identity.ID) (total uint64, err error) {
	for d, err := range store.Documents(ctx, r.Source, spend.VacantTotalDocs.Range(id.String())) {
		if err != nil {
			return 0, err
		}
		total += uint64(max(d.Number, 0))
		if err := r.reportDamage(d.Key, Spend, "the total of a vacant's day", spend.CheckVacantTotal(d)); err != nil {
			return 0, err
		}
	}
	return total, nil
}

func (k *kinship) vacants() []identity.ID {
	return slices.SortedFunc(maps.Keys(k.inferenceTotals), func(a, b identity.ID) int { return bytes.Compare(a[:], b[:]) })
}

// checkInferences allows more entries than answers, because an entry is signed before its answer is
// stored.
func (r *run) checkInferences(ctx context.Context) error {
	for _, id := range r.kin.vacants() {
		t := r.kin.inferenceTotals[id]
		if t.answers <= t.entries || r.kin.incomparable[id] {
			continue
		}
		if err := r.readNewEntries(ctx, id); err != nil { // the logbook was read before the answers and may have grown
			return err
		}
		if t.answers > t.entries {
			r.addCertainFinding(newStreamFinding(store.StreamOf(store.KindLogbook, id), 0, Agent, fmt.Sprintf("an %s for each of %d answers of its model", logbook.KindInference, t.answers), fmt.Sprint(t.entries)))
		}
	}
	return nil
}

// compareLogbooks skips a vacant whose key was exported, because the vacant may have continued on
// another host.
func (r *run) compareLogbooks(ctx context.Context) error {
	order := func(a, b edge) int {
		if c := bytes.Compare(a.parent[:], b.parent[:]); c != 0 {
			return c
		}
		return bytes.Compare(a.child[:], b.child[:])
	}
	for _, kinEdge := range slices.SortedFunc(maps.Keys(r.kin.edges), order) {
		if err := r.flushIfFull(); err != nil {
			return err
		}
		totals := r.kin.edges[kinEdge]
		if totals.parent == totals.child {
			continue
		}
		isComparable, err := r.isComparable(ctx, kinEdge)
		if err != nil {
			return err
		}
		if !isComparable {
			continue
		}
		// The logbooks were read at different times, so new entries are read until neither logbook
		// grows.
		report := r.addFinding
		for range maxRereads {
			positionSum := r.kin.lastPositions[kinEdge.parent] + r.kin.lastPositions[kinEdge.child]
			for _, owner := range []identity.ID{kinEdge.parent, kinEdge.child} {
				if err := r.readNewEntries(ctx, owner); err != nil {
					return err
				}
			}
			if positionSum == r.kin.lastPositions[kinEdge.parent]+r.kin.lastPositions[kinEdge.child] {
				report = r.addCertainFinding
				break
			}
		}
		if totals.parent != totals.child {
			reportDifferences(kinEdge, totals, report)
		}
	}
	return nil
}

func (r *run) isComparable(ctx context.Context, kinEdge edge) (bool, error) {
	for _, id := range []identity.ID{kinEdge.parent, kinEdge.child} {
		if r.kin.incomparable[id] {
			return false, nil
		}
		d, err := r.view.Doc(ctx, vacants.RecordKey(id))
		if isDamaged(err) || err == nil && d.Version == 0 {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if hasRows, err := r.hasRows(ctx, store.StreamOf(store.KindLogbook, id)); !hasRows || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (r *run) readNewEntries(ctx context.Context, owner identity.ID) error {
	_, err := r.eachNewRow(ctx, store.StreamOf(store.KindLogbook, owner), r.kin.lastPositions[owner]+1, func(row store.Row) error {
		var e logbook.Entry
		if e.UnmarshalBinary(row.Data) == nil {
			r.kin.recordEntry(&e, row.Position, owner)
		}
		return nil
	})
	return err
}

func reportDifferences(kinEdge edge, totals *edgeTotals, report func(Finding)) {
	s := store.StreamOf(store.KindLogbook, kinEdge.child)
	for kind, name := range entryKindPairs() {
		p, c := totals.parent[kind], totals.child[kind]
		switch {
		case p.count != c.count:
			report(newStreamFinding(s, 0, Kin, fmt.Sprintf("%d %s entries, as many as %s entries in the logbook of %s", p.count, name[1], name[0], kinEdge.parent), fmt.Sprint(c.count)))
		case p.sum != c.sum:
			report(newStreamFinding(s, 0, Kin, fmt.Sprintf("%s entries that match the %s entries in the logbook of %s", name[1], name[0], kinEdge.parent), "entries that differ"))
		}
	}
}

func (k *kinship) recordIncomparable(owner identity.ID, state *logbookState) {
	if !state.isComplete || state.keyExported {
		k.incomparable[owner] = true
	}
}
