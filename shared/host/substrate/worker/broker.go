// Package worker is a substrate whose turns are run by workers, which are remote programs. The process that runs a call
// uses Infer, which offers a turn and supervises its lease. A worker leases turns through a Broker, which may be in
// another process.
//
// Only the supervisor decides that a lease is lost. A lease is lost if the turn has not changed for LeaseDuration on
// the supervisor's clock.
//
// At most one answer of a turn is used. A started turn is given to another worker only if the vacant's substrate allows
// it (redo=1). Only a worker of the vacant's tenant, in the mode of the call (test or live), gets the texts of the
// turn.
package worker

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	// LeaseDuration is the time without a report or heartbeat after which a lease is lost.
	LeaseDuration = 60 * time.Second
	// MaxWaitingRequests limits the requests of one key that wait in a process.
	MaxWaitingRequests = 64
	MaxBatches         = 20_000
	MaxEventBytes      = 2 << 20

	defaultTurnTime = 15 * time.Minute
	turnRetention   = 10 * time.Minute
	// pollInterval is needed, because other processes cannot wake a supervisor.
	pollInterval = 300 * time.Millisecond
	// connectionTime is the time after a request for turns for which a worker is considered connected.
	connectionTime           = 3 * time.Minute
	connectionRecordInterval = time.Minute
	maxConnectionTimes       = 10_000
	scanPageSize             = 16
)

// Config configures a Broker. All fields are required.
type Config struct {
	Store    store.Store
	Texts    *textkeys.Keys
	Now      func() time.Time
	Rand     io.Reader // safe for concurrent use
	TenantOf func(context.Context, identity.ID) (string, error)
}

// Broker assigns turns to workers and passes their answers to the calls. It is safe for concurrent use.
type Broker struct {
	Config

	mu              sync.Mutex
	lastLeased      map[string]identity.ID
	changeSignals   map[string]chan struct{} // closed when a queue or a turn changes
	waitingRequests map[string]int
	connectionTimes map[store.Key]time.Time
	closing         chan struct{}
	drainOnce       sync.Once
}

func New(c Config) *Broker {
	return &Broker{Config: c, lastLeased: map[string]identity.ID{}, changeSignals: map[string]chan struct{}{}, waitingRequests: map[string]int{}, connectionTimes: map[store.Key]time.Time{}, closing: make(chan struct{})}
}

// Drain makes waiting requests for turns fail.
func (d *Broker) Drain() { d.drainOnce.Do(func() { close(d.closing) }) }

func (d *Broker) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "worker.Broker") }

func (d *Broker) Kinds() substrate.Kinds {
	return substrate.Kinds{substrate.KindWorker: func(argument string) (substrate.Substrate, error) {
		if argument != "" && argument != "redo=1" {
			return nil, problem.Invalid("substrate", "worker or worker:redo=1", fmt.Sprintf("%.80q", substrate.KindWorker+":"+argument))
		}
		return &workerSubstrate{d, argument != ""}, nil
	}}
}

func (d *Broker) changeSignal(name string) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changeSignals[name] == nil {
		d.changeSignals[name] = make(chan struct{})
	}
	return d.changeSignals[name]
}

func (d *Broker) signalChange(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c, ok := d.changeSignals[name]; ok {
		close(c)
		delete(d.changeSignals, name)
	}
}

func (d *Broker) updater() store.Updater { return store.Updater{Store: d.Store, Rand: d.Rand} }

func (d *Broker) now() time.Time { return d.Now().UTC() }

func (d *Broker) newID() (string, error) {
	// Ids sort by the time of their creation.
	var b [16]byte
	if _, err := io.ReadFull(d.Rand, b[:]); err != nil {
		return "", problem.Wrap(problem.Unavailable, err, "no random data")
	}
	binary.BigEndian.PutUint64(b[:], uint64(d.now().UnixMicro())<<8|uint64(b[7]))
	return hex.EncodeToString(b[:]), nil
}

func textKey(id string, lease, report int) store.Key {
	// If lease and report are 0, the text is the question.
	return TextDocs.Key(id, strconv.Itoa(lease), strconv.Itoa(report))
}

func (d *Broker) storeText(ctx context.Context, tx *store.Tx, k store.Key, t *turn, plain []byte) error {
	s, err := d.Texts.Seal(ctx, []byte(k.String()), plain)
	if err != nil {
		return store.AsProblem(err)
	}
	TextDocs.Put(tx, store.Doc{Key: k, Expires: t.expires()}, append(binary.BigEndian.AppendUint32([]byte{1}, s.Day), s.Box...))
	return nil
}

func (d *Broker) loadText(ctx context.Context, k store.Key) ([]byte, error) {
	doc, err := d.Store.Doc(ctx, k)
	switch {
	case err != nil:
		return nil, store.AsProblem(err)
	case len(doc.Data) < 5 || doc.Data[0] != 1:
		return nil, problem.New(problem.Damaged, "%s does not decode", k)
	}
	plain, err := d.Texts.Open(ctx, []byte(k.String()), textkeys.Sealed{Day: binary.BigEndian.Uint32(doc.Data[1:5]), Box: doc.Data[5:]})
	if errors.Is(err, store.ErrUnavailable) || problem.Is(err, problem.Unavailable) {
		return nil, store.AsProblem(err)
	}
	if err != nil {
		return nil, problem.Wrap(problem.Damaged, err, "%s does not open", k)
	}
	return plain, nil
}

func modeName(test bool) string {
	if test {
		return "test"
	}
	return "live"
}

func (t *turn) expires() time.Time { return t.Deadline.Add(turnRetention).Truncate(time.Second) }

func queueName(tenant string, test bool) string { return "queue#" + modeName(test) + "#" + tenant }

func (t *turn) waitingKey(id string) store.Key {
	return WaitingDocs.Key(t.Tenant, modeName(t.Test), t.Vacant.String(), id)
}

// updateTurn commits the changes that decide makes to a turn.
func (d *Broker) updateTurn(ctx context.Context, id string, decide func(tx *store.Tx, t *turn, version uint64) (bool, error)) error {
	err := d.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		t, doc, err := TurnDocs.Get(ctx, tx, TurnDocs.Key(id))
		if err == nil && doc.Version == 0 {
			err = noLeaseError()
		}
		if err != nil {
			return err
		}
		hasChanged, err := decide(tx, &t, doc.Version)
		if err != nil || !hasChanged {
			return err
		}
		TurnDocs.Put(tx, store.Doc{Key: doc.Key, Expires: t.expires()}, t)
		return nil
	})
	d.signalChange(id)
	return store.AsProblem(err)
}

func noLeaseError() error {
	return problem.New(problem.NotFound, "lease: expected a lease that this key holds, got another one; it may have ended long ago")
}

// recordConnection records that a worker asks for turns of a vacant, or of all vacants if vacant is nil.
func (d *Broker) recordConnection(ctx context.Context, tenant string, test bool, vacant *identity.ID) error {
	sortKey := anyVacant
	if vacant != nil {
		sortKey = vacant.String()
	}
	key, now := ConnectionDocs.Key(tenant, modeName(test), sortKey), d.now()
	d.mu.Lock()
	isRecent := now.Sub(d.connectionTimes[key]) < connectionRecordInterval && !d.connectionTimes[key].After(now)
	if !isRecent {
		if len(d.connectionTimes) >= maxConnectionTimes {
			clear(d.connectionTimes)
		}
		d.connectionTimes[key] = now
	}
	d.mu.Unlock()
	if isRecent {
		return nil
	}
	return store.AsProblem(d.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Doc(ctx, key); err != nil {
			return err
		}
		ConnectionDocs.Put(tx, store.Doc{Key: key, Expires: now.Add(connectionTime + connectionRecordInterval).Truncate(time.Second)}, connection{now})
		return nil
	}))
}

// CheckConnected returns an error of kind NoWorker unless a worker has recently asked for turns of a vacant in live
// mode.
func (d *Broker) CheckConnected(ctx context.Context, vacant identity.ID) error {
	tenant, err := d.TenantOf(ctx, vacant)
	if err != nil {
		return err
	}
	for _, sortKey := range []string{vacant.String(), anyVacant} {
		s, doc, err := ConnectionDocs.Get(ctx, d.Store, ConnectionDocs.Key(tenant, modeName(false), sortKey))
		switch {
		case err != nil:
			return store.AsProblem(err)
		case doc.Version > 0 && d.now().Sub(s.Time) < connectionTime:
			return nil
		}
	}
	return noWorkerError()
}

func noWorkerError() error {
	return problem.New(problem.NoWorker, "no worker is connected; start one with \"vacancy watch DIR --host URL\" or \"vacancy worker NAME\"")
}
