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
	// omissionTTL is limited, because the server may be replaced with a server that accepts the
	// member.
	omissionTTL  = time.Hour
	maxOmissions = 1024
)

// Omissions records, for each model, the optional request members that its server rejects. It is
// safe for concurrent use.
type Omissions struct {
	now func() time.Time

	mu      sync.Mutex
	byModel map[model]omission
}

type model struct {
	vacant identity.ID
	spec   substrate.Spec
}

type omission struct {
	members []string
	expires time.Time
}

func NewOmissions() *Omissions { return &Omissions{now: time.Now, byModel: map[model]omission{}} }

func (o *Omissions) get(m model) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if entry, ok := o.byModel[m]; ok && o.now().Before(entry.expires) {
		return entry.members
	}
	delete(o.byModel, m)
	return nil
}

func (o *Omissions) set(m model, members []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byModel, m)
	if len(members) == 0 {
		return
	}
	if len(o.byModel) >= maxOmissions {
		for other := range o.byModel {
			delete(o.byModel, other)
			break
		}
	}
	o.byModel[m] = omission{members, o.now().Add(omissionTTL)}
}

// Send sends a request to a model's server. If the server rejects an optional member, Send repeats
// the request without the member. A rejected request has no answer, so the caller pays for at most
// one answer.
func Send[B, T any](o *Omissions, r *substrate.Request, spec substrate.Spec, body func(*substrate.Request) B, send func(B) (T, error)) (T, error) {
	m := model{r.Vacant, spec}
	omitted := o.get(m)
	attempt := *r
	attempt.Omit = slices.Concat(r.Omit, omitted)
	for {
		b := body(&attempt)
		answer, err := send(b)
		rejection := rejectionBody(err)
		if rejection == "" {
			if err == nil && len(attempt.Omit) > len(r.Omit)+len(omitted) {
				o.set(m, attempt.Omit[len(r.Omit):])
			}
			return answer, err
		}
		namedMembers := substrate.FindNamedMembers(rejection)
		i := slices.IndexFunc(namedMembers, func(member string) bool {
			reduced := attempt
			reduced.Omit = append(slices.Clip(attempt.Omit), member)
			return !reflect.DeepEqual(body(&reduced), b)
		})
		if i < 0 {
			o.set(m, nil) // the server may need the omitted members
			return answer, err
		}
		attempt.Omit = append(slices.Clip(attempt.Omit), namedMembers[i])
	}
}

func rejectionBody(err error) string {
	var agentErr *call.AgentError
	if errors.As(err, &agentErr) && (agentErr.Status == http.StatusBadRequest || agentErr.Status == http.StatusUnprocessableEntity) {
		return agentErr.Body
	}
	return ""
}
