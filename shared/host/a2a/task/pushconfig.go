package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

type PushConfig struct {
	ID               string `json:"id"`
	URL              string `json:"url"`
	Token            string `json:"token,omitempty"`
	Scheme           string `json:"scheme,omitempty"`
	Credentials      string `json:"credentials,omitempty"`
	Dialect          uint8  `json:"dialect,omitempty"` // a2awire.Dialect
	AcceptsEnvelopes bool   `json:"extension,omitempty"`
	ClientAddress    string `json:"from,omitempty"` // address that set the configuration
}

const MaxPushConfigs = 4

var ErrNoPushConfig = problem.New(problem.NotFound, "the task has no push notification configuration with this id")

func (r Ref) pushKey(slot int) store.Key { return PushDocs.Key(r.encode(), strconv.Itoa(slot)) }

type Progress struct {
	// ConfigVersion is the document version at which the configuration was set.
	ConfigVersion  uint64    `json:"set_at,omitempty"`
	SendsTask      bool      `json:"whole,omitempty"` // the next delivery contains the complete task
	LeaseEnd       time.Time `json:"busy,omitzero"`
	FailedTries    int       `json:"try,omitempty"`
	AttemptedEvent int       `json:"through,omitempty"` // last event of an unconfirmed delivery
	DeliveryCount  int       `json:"count,omitempty"`
	// OnlyTurnEnds is set when the last attempt of a delivery fails, until a delivery succeeds.
	OnlyTurnEnds bool `json:"quiet,omitempty"`
}

// storedPush is a stored configuration. A removed configuration leaves an empty document, so that
// an outdated commit never succeeds.
type storedPush struct {
	PushConfig
	Progress
}

func (e *Engine) newPushDoc(ctx context.Context, k store.Key, c storedPush) (store.Doc, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return store.Doc{}, problem.Wrap(problem.Internal, err, "push configuration")
	}
	data, err := e.seal(ctx, k, b)
	return store.Doc{Key: k, Data: data, Index: PushDocs.IndexKey(k.Partition + "#" + k.Sort)}, err
}

func (e *Engine) openStoredPush(ctx context.Context, d store.Doc) (c storedPush, err error) {
	plaintext, err := e.openDoc(ctx, d)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(plaintext, &c); err != nil {
		return c, problem.Wrap(problem.Damaged, err, "push configuration %s does not decode", d.Key)
	}
	return c, nil
}

// AddPushConfig adds or replaces a configuration. After the end of the task, only the first added
// configuration gets a delivery. Otherwise small requests could make the host send the complete
// task many times.
func (e *Engine) AddPushConfig(ctx context.Context, r Ref, c PushConfig) (PushConfig, error) {
	l, err := e.loadCurrentTask(ctx, r)
	if err != nil {
		return c, err
	}
	notice := Notice{Task: r, MinEvents: len(l.events)}
	err = e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		docs, err := e.loadPushDocs(ctx, r)
		if err != nil {
			return err
		}
		slot, err := e.chooseSlot(ctx, r, docs, c.ID)
		if err != nil {
			return err
		}
		w, err := e.newPushPut(ctx, &l.head, slot, storedPush{c, Progress{SendsTask: true}}, tx.ID)
		if err != nil {
			return err
		}
		notice.Slot, notice.ConfigVersion = slotOf(w.Key), w.IfVersion+1
		if l.head.State.IsTerminal() {
			h, err := e.readHead(ctx, tx, r)
			if err != nil {
				return err
			}
			if h.HasLatePush {
				w.Index = store.Key{}
			} else {
				h.HasLatePush = true
				if err := r.putHead(tx, h); err != nil {
					return err
				}
			}
		}
		tx.AddWrites(w)
		return nil
	})
	if err != nil {
		return c, store.AsProblem(err)
	}
	e.announcePushWork(r)
	// Notify after the commit, because the worker must find the configuration.
	return c, e.notify(context.WithoutCancel(ctx), notice, SenderOf(r.Owner, c.ClientAddress))
}

type pushSlot struct {
	key     store.Key
	version uint64
}

func (e *Engine) chooseSlot(ctx context.Context, r Ref, docs []store.Doc, id string) (pushSlot, error) {
	versions, takenSlots := map[store.Key]uint64{}, map[store.Key]bool{}
	for _, d := range docs {
		if versions[d.Key] = d.Version; isRemoved(&d) {
			continue
		}
		c, err := e.openStoredPush(ctx, d)
		if err != nil {
			return pushSlot{}, err
		}
		if c.ID == id {
			return pushSlot{d.Key, d.Version}, nil
		}
		takenSlots[d.Key] = true
	}
	for slot := 1; slot <= MaxPushConfigs; slot++ {
		if k := r.pushKey(slot); !takenSlots[k] {
			return pushSlot{k, versions[k]}, nil
		}
	}
	return pushSlot{}, problem.Invalid("pushNotificationConfig", fmt.Sprintf("at most %d configurations for a task", MaxPushConfigs), "one more configuration")
}

func (e *Engine) newPushPut(ctx context.Context, h *head, slot pushSlot, c storedPush, id store.WriteID) (store.Put, error) {
	c.ConfigVersion = slot.version + 1
	d, err := e.newPushDoc(ctx, slot.key, c)
	return store.Put{Key: d.Key, IfVersion: slot.version, WriteID: id, Data: d.Data, Index: d.Index, Expires: h.StartedAt.Add(MaxAge + Retention).UTC().Truncate(time.Second)}, err
}

func (e *Engine) ListPushConfigs(ctx context.Context, r Ref) (configs []PushConfig, err error) {
	if _, err := e.loadCurrentTask(ctx, r); err != nil {
		return nil, err
	}
	docs, err := e.loadPushDocs(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		if isRemoved(&d) {
			continue
		}
		c, err := e.openStoredPush(ctx, d)
		if err != nil {
			return nil, err
		}
		configs = append(configs, c.PushConfig)
	}
	return configs, nil
}

func (e *Engine) loadPushDocs(ctx context.Context, r Ref) ([]store.Doc, error) {
	docs, _, err := e.Store.Docs(ctx, PushDocs.Range(r.encode()), MaxPushConfigs, "")
	return docs, store.AsProblem(err)
}

func isRemoved(d *store.Doc) bool { return len(d.Data) == 0 }

func (e *Engine) RemovePushConfig(ctx context.Context, r Ref, id string) error {
	if _, err := e.loadCurrentTask(ctx, r); err != nil {
		return err
	}
	return store.AsProblem(e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		docs, err := e.loadPushDocs(ctx, r)
		if err != nil {
			return err
		}
		for _, d := range docs {
			if isRemoved(&d) {
				continue
			}
			c, err := e.openStoredPush(ctx, d)
			if err != nil {
				return err
			}
			if c.ID == id {
				tx.AddWrites(store.Put{Key: d.Key, IfVersion: d.Version, WriteID: tx.ID, Expires: d.Expires})
			}
		}
		return nil
	}))
}

// ActivePushConfig is a push configuration whose deliveries have not ended.
type ActivePushConfig struct {
	Task          Ref
	Config        PushConfig
	LastDelivered int // event number
	Progress

	doc store.Doc
}

func (e *Engine) ListActivePushConfigs(ctx context.Context, cursor string) (pushes []ActivePushConfig, next string, err error) {
	docs, next, err := e.Store.Docs(ctx, PushDocs.IndexRange(), 100, cursor)
	if err != nil {
		return nil, "", store.AsProblem(err)
	}
	for _, d := range docs {
		if d.IsExpired(e.Now()) {
			continue
		}
		parts, ok := PushDocs.Parts(d.Key)
		if !ok {
			return nil, "", problem.New(problem.Damaged, "the index of push configurations contains %s, which is not a push configuration", d.Key)
		}
		r, err := ParseRef(parts[0])
		if err != nil {
			return nil, "", err
		}
		if p, ok := e.decodePush(ctx, d, r); ok {
			pushes = append(pushes, p)
		}
	}
	return pushes, next, nil
}

func (e *Engine) decodePush(ctx context.Context, d store.Doc, r Ref) (p ActivePushConfig, ok bool) {
	c, err := e.openStoredPush(ctx, d) // fails if the configuration is damaged or its text key was destroyed
	return ActivePushConfig{Task: r, Config: c.PushConfig, LastDelivered: int(d.Number), Progress: c.Progress, doc: d}, err == nil
}

func (p *ActivePushConfig) Slot() int { return slotOf(p.doc.Key) }

func slotOf(k store.Key) int {
	parts, ok := PushDocs.Parts(k)
	if !ok {
		return 0
	}
	n, _ := strconv.Atoi(parts[1])
	return n
}

// RestoreProgress copies progress that is not stored yet, unless the configuration has changed.
func (p *ActivePushConfig) RestoreProgress(earlier *ActivePushConfig) {
	if earlier != nil && earlier.doc.Key == p.doc.Key && earlier.doc.Version == p.doc.Version {
		p.LastDelivered, p.Progress = earlier.LastDelivered, earlier.Progress
	}
}

func (p *ActivePushConfig) Sender() Sender { return SenderOf(p.Task.Owner, p.Config.ClientAddress) }

type DeliveryCost struct {
	Bytes       int // zero is not counted
	TaskLimit   int // for all configurations
	SenderLimit int // per hour, for all tasks
}

var ErrDeliveryLimit = errors.New("a limit of push notifications is reached")

// SaveProgress stores the progress and counts the cost of the next attempt. If p is outdated, the
// error is a conflict. If a limit is exceeded, the error is ErrDeliveryLimit.
func (e *Engine) SaveProgress(ctx context.Context, p *ActivePushConfig, cost DeliveryCost) error {
	d, err := e.newPushDoc(ctx, p.doc.Key, storedPush{p.Config, p.Progress})
	if err != nil {
		return err
	}
	p.doc.Data = d.Data
	if cost.Bytes == 0 {
		return e.storePush(ctx, p, p.doc.Index)
	}
	const window = time.Hour
	now := e.Now().UTC().Truncate(window)
	err = e.storePush(ctx, p, p.doc.Index,
		store.Add{Key: PushedByteDocs.Key(p.Task.partition(), "bytes"), Delta: int64(cost.Bytes), Max: int64(cost.TaskLimit), Expires: p.doc.Expires},
		store.Add{Key: PushedByteDocs.Key(string(p.Sender()), now.Format(time.RFC3339)),
			Delta: int64(cost.Bytes), Max: int64(cost.SenderLimit), Expires: now.Add(2 * window)})
	if errors.As(err, new(*store.BoundsError)) {
		return ErrDeliveryLimit
	}
	return err
}

func (e *Engine) EndDeliveries(ctx context.Context, p *ActivePushConfig) error {
	return e.storePush(ctx, p, store.Key{})
}

func (e *Engine) storePush(ctx context.Context, p *ActivePushConfig, index store.Key, otherWrites ...store.Write) error {
	id, err := e.updater().NewWriteID()
	if err != nil {
		return err
	}
	w := store.Put{Key: p.doc.Key, IfVersion: p.doc.Version, WriteID: id, Data: p.doc.Data, Number: int64(p.LastDelivered), Index: index, Expires: p.doc.Expires}
	if err := e.updater().Commit(ctx, append(otherWrites, w)...); err != nil {
		return err
	}
	p.doc.Version, p.doc.Index = p.doc.Version+1, index
	return nil
}

// OnPushWork sets a function that is called when a task may have events to push. OnPushWork must be
// called before the first request, and the function must not block.
func (e *Engine) OnPushWork(fn func(Ref)) { e.onPush = fn }

func (e *Engine) announcePushWork(r Ref) {
	if e.onPush != nil {
		e.onPush(r)
	}
}
