package task

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

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

// pushDoc is the document of a configuration. Its number is that of the last event
// that was delivered.
func (e *Engine) pushDoc(ctx context.Context, k store.Key, c *PushConfig) (store.Doc, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return store.Doc{}, problem.Wrap(problem.Internal, err, "push configuration")
	}
	data, err := e.seal(ctx, k, b)
	return store.Doc{Key: k, Data: data, Index: store.Key{Partition: pushPartition, Sort: k.Partition + "#" + k.Sort}}, err
}

func (e *Engine) readPush(ctx context.Context, d store.Doc) (c PushConfig, err error) {
	plain, err := e.open(ctx, d)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(plain, &c); err != nil {
		return c, problem.Wrap(problem.Damaged, err, "push configuration %s does not decode", d.Key)
	}
	return c, nil
}

// AddPush adds a configuration to a task, or replaces the one with its id.
func (e *Engine) AddPush(ctx context.Context, r Ref, c PushConfig) (PushConfig, error) {
	l, err := e.current(ctx, r)
	if err != nil {
		return c, err
	}
	err = e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		free := store.Key{}
		for slot := 1; slot <= MaxPushConfigs; slot++ {
			k := r.pushKey(slot)
			d, err := tx.Doc(ctx, k)
			if err != nil {
				return err
			}
			if d.Version == 0 {
				if free == (store.Key{}) {
					free = k
				}
				continue
			}
			known, err := e.readPush(ctx, d)
			if err != nil {
				return err
			}
			if known.ID == c.ID {
				free = k
				break
			}
		}
		if free == (store.Key{}) {
			return problem.Invalid("pushNotificationConfig", fmt.Sprintf("at most %d for a task", MaxPushConfigs), "one more")
		}
		d, err := e.pushDoc(ctx, free, &c)
		d.Expires = l.head.expires()
		tx.Put(d)
		return err
	})
	e.hub.pushed()
	return c, store.Problem(err)
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
		all = append(all, c)
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
	Delivered int // number of the last event that was delivered

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
		r, err := parseMessage(strings.TrimPrefix(d.Key.Partition, "task#"))
		if err != nil {
			return nil, "", err
		}
		p := Push{Task: r, Delivered: int(d.Number), doc: d}
		if p.Config, err = e.readPush(ctx, d); err != nil {
			continue // its day's key is gone, or it is damaged: nothing can be sent by it
		}
		all = append(all, p)
	}
	return all, next, nil
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

// Pushed returns a channel that is closed when a configuration is added in this
// process. The caller calls done once it no longer waits.
func (e *Engine) Pushed() (added <-chan struct{}, done func()) { return e.hub.wait(pushPartition) }

func (h *hub) pushed() { h.wake(pushPartition) }
