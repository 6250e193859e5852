package task

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// PushConfig asks for the events of a task to be sent to a URL. Scheme and
// Credentials become the Authorization header of each delivery.
type PushConfig struct {
	ID          string `json:"id"`
	URL         string `json:"url"`
	Token       string `json:"token,omitempty"`
	Scheme      string `json:"scheme,omitempty"`
	Credentials string `json:"credentials,omitempty"`
	Dialect     uint8  `json:"dialect,omitempty"`   // in which deliveries are written
	Extension   bool   `json:"extension,omitempty"` // the receiver knows envelopes
	From        string `json:"from,omitempty"`      // address of the client that set it
}

// MaxPushConfigs is how many of them a task has.
const MaxPushConfigs = 4

// ErrNoPushConfig means that the task has no configuration of this id.
var ErrNoPushConfig = problem.New(problem.NotFound, "the task has no push notification configuration of this id")

const (
	pushPrefix = "push#"
	// pushPartition lists the configurations in the sparse index whose deliveries have
	// not ended.
	pushPartition = "pushes"
)

func (r Ref) pushKey(slot int) store.Key {
	return store.Key{Partition: r.partition(), Sort: fmt.Sprintf("%s%d", pushPrefix, slot)}
}

// storedPush is a configuration in the store. Its document's number is that of the last
// event that was delivered.
type storedPush struct {
	PushConfig
	Busy time.Time `json:"busy,omitzero"`
	Try  int       `json:"try,omitempty"`
}

func (e *Engine) pushDoc(ctx context.Context, k store.Key, c storedPush) (store.Doc, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return store.Doc{}, problem.Wrap(problem.Internal, err, "push configuration")
	}
	data, err := e.seal(ctx, k, b)
	return store.Doc{Key: k, Data: data, Index: store.Key{Partition: pushPartition, Sort: k.Partition + "#" + k.Sort}}, err
}

func (e *Engine) readPush(ctx context.Context, d store.Doc) (c storedPush, err error) {
	plain, err := e.open(ctx, d)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(plain, &c); err != nil {
		return c, problem.Wrap(problem.Damaged, err, "push configuration %s does not decode", d.Key)
	}
	return c, nil
}

// AddPush adds a configuration to a task, or replaces the one with its id. On a task that has
// ended, the first one gets the last event, and later ones are kept and get nothing: each
// would cost its sender a small request, and the host all deliveries once more.
func (e *Engine) AddPush(ctx context.Context, r Ref, c PushConfig) (PushConfig, error) {
	l, err := e.current(ctx, r)
	if err != nil {
		return c, err
	}
	err = e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		docs, err := e.pushDocs(ctx, r)
		if err != nil {
			return err
		}
		slot, err := e.slotFor(ctx, r, docs, c.ID)
		if err != nil {
			return err
		}
		w, err := e.pushPut(ctx, &l.head, slot, &c, tx.ID)
		if err != nil {
			return err
		}
		if l.head.State.Terminal() {
			h, err := e.readHead(ctx, tx, r)
			if err != nil {
				return err
			}
			w.Number = int64(len(l.events) - 1)
			if h.EndTold {
				w.Number, w.Index = int64(len(l.events)), store.Key{}
			} else {
				h.EndTold = true
				if err := r.putHead(tx, h); err != nil {
					return err
				}
			}
		}
		tx.Add(w)
		return nil
	})
	if err != nil {
		return c, store.Problem(err)
	}
	e.hub.pushed()
	// After the commit, because its worker must find the configuration. Without an answer
	// the caller adds it again.
	return c, e.notify(context.WithoutCancel(ctx), Notice{Task: r, Events: len(l.events)}, c.sender(r))
}

// pushSlot is the place of a configuration among those of its task.
type pushSlot struct {
	key     store.Key
	version uint64
}

// slotFor returns the place of the configuration with an id, or a free one.
func (e *Engine) slotFor(ctx context.Context, r Ref, docs []store.Doc, id string) (pushSlot, error) {
	taken := map[store.Key]bool{}
	for _, d := range docs {
		c, err := e.readPush(ctx, d)
		if err != nil {
			return pushSlot{}, err
		}
		if c.ID == id {
			return pushSlot{d.Key, d.Version}, nil
		}
		taken[d.Key] = true
	}
	for slot := 1; slot <= MaxPushConfigs; slot++ {
		if k := r.pushKey(slot); !taken[k] {
			return pushSlot{key: k}, nil
		}
	}
	return pushSlot{}, problem.Invalid("pushNotificationConfig", fmt.Sprintf("at most %d for a task", MaxPushConfigs), "one more")
}

// pushPut is the write of a configuration.
func (e *Engine) pushPut(ctx context.Context, h *head, at pushSlot, c *PushConfig, id store.WriteID) (store.Put, error) {
	d, err := e.pushDoc(ctx, at.key, storedPush{PushConfig: *c})
	return store.Put{Key: d.Key, If: at.version, WriteID: id, Data: d.Data, Index: d.Index, Expires: h.Began.Add(MaxAge + Kept).UTC().Truncate(time.Second)}, err
}

// pushOfNextTurn returns the write of the configuration that the next turn of a task
// brings, and sends a notice of event n, which begins the turn, if anything is pushed.
func (e *Engine) pushOfNextTurn(ctx context.Context, t *Turn, h *head, n int, id store.WriteID) ([]store.Write, error) {
	if t.Push == nil {
		return nil, e.notifyOf(ctx, t.Ref, n)
	}
	docs, err := e.pushDocs(ctx, t.Ref)
	if err != nil {
		return nil, err
	}
	slot, err := e.slotFor(ctx, t.Ref, docs, t.Push.ID)
	if err != nil {
		return nil, err
	}
	w, err := e.pushPut(ctx, h, slot, t.Push, id)
	if err != nil {
		return nil, err
	}
	w.Number = int64(n - 1) // it asks for the events of its turn
	return []store.Write{w}, e.notify(ctx, Notice{Task: t.Ref, Events: n}, t.Push.sender(t.Ref))
}

// Pushes returns the configurations of a task.
func (e *Engine) Pushes(ctx context.Context, r Ref) (all []PushConfig, err error) {
	if _, err := e.current(ctx, r); err != nil {
		return nil, err
	}
	docs, err := e.pushDocs(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		c, err := e.readPush(ctx, d)
		if err != nil {
			return nil, err
		}
		all = append(all, c.PushConfig)
	}
	return all, nil
}

func (e *Engine) pushDocs(ctx context.Context, r Ref) ([]store.Doc, error) {
	docs, _, err := e.Store.Docs(ctx, store.Range{Partition: r.partition(), First: pushPrefix, Last: pushPrefix + "~"}, MaxPushConfigs, "")
	return docs, store.Problem(err)
}

// RemovePush removes a configuration of a task. An absent one is removed already.
func (e *Engine) RemovePush(ctx context.Context, r Ref, id string) error {
	if _, err := e.current(ctx, r); err != nil {
		return err
	}
	return store.Problem(e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		docs, err := e.pushDocs(ctx, r)
		if err != nil {
			return err
		}
		for _, d := range docs {
			c, err := e.readPush(ctx, d)
			if err != nil {
				return err
			}
			if c.ID != id {
				continue
			}
			if _, err := tx.Doc(ctx, d.Key); err != nil {
				return err
			}
			tx.Delete(d.Key)
		}
		return nil
	}))
}

// Push is a configuration whose deliveries have not ended.
type Push struct {
	Task      Ref
	Config    PushConfig
	Delivered int       // number of the last event that was delivered
	Busy      time.Time // until then nobody else delivers
	Try       int       // how often the next delivery has failed

	doc store.Doc
}

// OpenPushes returns a page of the configurations whose deliveries have not ended, and
// the cursor of the next page.
func (e *Engine) OpenPushes(ctx context.Context, cursor string) (all []Push, next string, err error) {
	docs, next, err := e.Store.Docs(ctx, store.Range{Partition: pushPartition, Index: true}, 100, cursor)
	if err != nil {
		return nil, "", store.Problem(err)
	}
	for _, d := range docs {
		if d.Expired(e.Now()) {
			continue
		}
		r, err := ParseMessage(strings.TrimPrefix(d.Key.Partition, "task#"))
		if err != nil {
			return nil, "", err
		}
		if p, ok := e.openPush(ctx, d, r); ok {
			all = append(all, p)
		}
	}
	return all, next, nil
}

// openPush reads a configuration. If its day's key is gone, or it is damaged, nothing can
// be sent by it.
func (e *Engine) openPush(ctx context.Context, d store.Doc, r Ref) (p Push, ok bool) {
	c, err := e.readPush(ctx, d)
	return Push{Task: r, Config: c.PushConfig, Delivered: int(d.Number), Busy: c.Busy, Try: c.Try, doc: d}, err == nil
}

// Slot is the place of a configuration among those of its task.
func (p *Push) Slot() int {
	n, _ := strconv.Atoi(strings.TrimPrefix(p.doc.Key.Sort, pushPrefix))
	return n
}

// Sender is who answers for deliveries: the account whose task it is, or else the address
// that set the configuration. Keys cost nothing: a sender may have any number of them. It is
// letters, digits and '-', and shows no address.
type Sender string

// Sender returns who answers for the deliveries.
func (p *Push) Sender() Sender { return p.Config.sender(p.Task) }

func (c *PushConfig) sender(r Ref) Sender {
	if account, ok := r.Owner.Account(); ok {
		return Sender(account.String())
	}
	sum := sha256.Sum256([]byte("vacancy sender v1\x1f" + c.From))
	return Sender("address-" + hex.EncodeToString(sum[:16]))
}

// Name identifies a Push as long as it is not replaced.
func (p *Push) Name() string { return p.doc.Key.String() + "#" + p.Config.ID + "#" + p.Config.URL }

// Note keeps that all events up to n were delivered. last ends the deliveries. The error
// is a conflict if the configuration was removed or replaced.
func (e *Engine) Note(ctx context.Context, p *Push, n int, last bool) error {
	id, err := e.updater().NewWriteID()
	if err != nil {
		return err
	}
	w := store.Put{Key: p.doc.Key, If: p.doc.Version, WriteID: id, Data: p.doc.Data, Number: int64(n), Index: p.doc.Index, Expires: p.doc.Expires}
	if last {
		w.Index = store.Key{}
	}
	if err := e.updater().Commit(ctx, w); err != nil {
		return err
	}
	p.doc.Version, p.doc.Index, p.Delivered = p.doc.Version+1, w.Index, n
	return nil
}

// Keep keeps how far the deliveries are, for processes that take turns: p.Delivered,
// p.Busy and p.Try. The error is a conflict if another process was quicker.
func (e *Engine) Keep(ctx context.Context, p *Push) error {
	d, err := e.pushDoc(ctx, p.doc.Key, storedPush{p.Config, p.Busy, p.Try})
	if err != nil {
		return err
	}
	p.doc.Data = d.Data
	return e.Note(ctx, p, p.Delivered, false)
}

// Pushed returns a channel that is closed when a configuration is added in this
// process. The caller calls done once it no longer waits.
func (e *Engine) Pushed() (added <-chan struct{}, done func()) { return e.hub.wait(pushPartition) }

func (h *hub) pushed() { h.wake(pushPartition) }
