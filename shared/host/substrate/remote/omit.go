package remote

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	// omissionTime is the time for which a rejected member is omitted. It is limited, because the
	// server may be replaced with one that accepts the member.
	omissionTime = time.Hour
	maxOmissions = 1024 // models in Omissions.of
)

// Omissions records which optional members of requests the models' servers reject. It is safe for
// concurrent use.
type Omissions struct {
	now func() time.Time

	mu sync.Mutex
	of map[model]omission
}

// model identifies a vacant's model.
type model struct {
	vacant identity.ID
	spec   substrate.Spec
}

type omission struct {
	members []string
	until   time.Time
}

func NewOmissions() *Omissions { return &Omissions{now: time.Now, of: map[model]omission{}} }

func (o *Omissions) get(m model) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if entry, ok := o.of[m]; ok && o.now().Before(entry.until) {
		return entry.members
	}
	delete(o.of, m)
	return nil
}

func (o *Omissions) set(m model, members []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.of, m)
	if len(members) == 0 {
		return
	}
	// If an entry is deleted, its model's server rejects one more request.
	if len(o.of) >= maxOmissions {
		for other := range o.of {
			delete(o.of, other)
			break
		}
	}
	o.of[m] = omission{members, o.now().Add(omissionTime)}
}

// Send sends the body of a request for r to the server of spec. If the server rejects the body
// because of an optional member, Send repeats the request without the member, once per member, and
// remembers the member if the server then answers. A rejected request has no answer, so the caller
// pays for at most one answer.
func Send[B, T any](o *Omissions, r *substrate.Request, spec substrate.Spec, body func(*substrate.Request) B, send func(B) (T, error)) (T, error) {
	m := model{r.Vacant, spec}
	members := o.get(m)
	q := *r
	q.Omit = slices.Concat(r.Omit, members)
	for {
		b := body(&q)
		got, err := send(b)
		refused := whyRefused(err)
		if refused == "" {
			if err == nil && len(q.Omit) > len(r.Omit)+len(members) {
				o.set(m, q.Omit[len(r.Omit):])
			}
			return got, err
		}
		named := substrate.NamedMembers(refused)
		i := slices.IndexFunc(named, func(member string) bool {
			less := q
			less.Omit = append(slices.Clip(q.Omit), member)
			return !reflect.DeepEqual(body(&less), b) // the body contains the member
		})
		if i < 0 {
			o.set(m, nil) // the server may need the omitted members
			return got, err
		}
		q.Omit = append(slices.Clip(q.Omit), named[i])
	}
}

func whyRefused(err error) string {
	var agent *call.AgentError
	if errors.As(err, &agent) && (agent.Status == http.StatusBadRequest || agent.Status == http.StatusUnprocessableEntity) {
		return agent.Body
	}
	return ""
}
