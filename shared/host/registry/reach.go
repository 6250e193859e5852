package registry

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

const (
	MaxConcurrentProbes = 64
	probeTimeout        = 3 * time.Second
	maxProbeReply       = 1 << 10 // bytes
)

// probePauses are the times between probes. After the last probe, the vacant stays unlisted until
// it publishes again.
var probePauses = []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour}

// EndpointProbe returns nil if the endpoint answers with an HTTP status below 500.
type EndpointProbe func(ctx context.Context, endpoint string) error

func NewProbe(c *outbound.Client) EndpointProbe {
	return func(ctx context.Context, endpoint string) error {
		reply, err := c.Do(ctx, outbound.HostActor(outbound.Stranger), outbound.Request{Method: http.MethodGet, URL: endpoint, MaxReply: maxProbeReply})
		if problem.Is(err, problem.TooLarge) {
			return nil // the size of the reply does not matter
		}
		if err != nil {
			return err
		}
		if reply.Status >= http.StatusInternalServerError {
			return problem.New(problem.Unavailable, "status %d", reply.Status)
		}
		return nil
	}
}

type pendingProbe struct {
	id         identity.ID
	seq        uint64
	ProbeCount int `json:"tries"`
}

func (r *Registry) ProbesNeeded() <-chan struct{} { return r.probeSignal }

func (r *Registry) signalProbe() {
	select {
	case r.probeSignal <- struct{}{}:
	default: // a value is already waiting
	}
}

type ProbeResult struct {
	Listed     int
	Unanswered int
	HasMore    bool
}

// ProbeEndpoints probes up to MaxConcurrentProbes due endpoints and lists the vacants whose
// endpoints answer. It schedules another probe for the others.
func (r *Registry) ProbeEndpoints(ctx context.Context, probe EndpointProbe) (ProbeResult, error) {
	now := r.now()
	dueRange := PendingProbeDocs.Range()
	dueRange.End = FormatChangeKey(now) + "#~"
	dueDocs, cursor, err := r.Store.Docs(ctx, dueRange, MaxConcurrentProbes, "")
	if err != nil {
		return ProbeResult{}, WrapStoreError(err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	result, failures := ProbeResult{HasMore: cursor != ""}, []error(nil)
	for _, d := range dueDocs {
		wg.Go(func() {
			isListed, isUnanswered, err := r.probePending(ctx, d, probe)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failures = append(failures, err)
			case isListed:
				result.Listed++
			case isUnanswered:
				result.Unanswered++
			}
		})
	}
	wg.Wait()
	return result, WrapStoreError(errors.Join(failures...))
}

func (r *Registry) probePending(ctx context.Context, d store.Doc, probe EndpointProbe) (isListed, isUnanswered bool, err error) {
	pending, err := PendingProbeDocs.Parse(d)
	if err != nil {
		return false, false, err
	}
	reg, err := r.loadRegistration(ctx, pending.id)
	if err != nil {
		return false, false, err
	}
	endpoint, hasAnswered := "", false
	if reg.needsProbe() {
		endpoint = parseEndpoint(reg.Card)
		if hasAnswered, err = r.probeEndpoint(ctx, probe, endpoint); err != nil {
			return false, false, err
		}
	}
	err = r.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		isListed, isUnanswered = false, false // a previous try may have set them
		entry, err := tx.Doc(ctx, d.Key)
		if err != nil || entry.Version == 0 {
			return err // another process was faster
		}
		reg, err := r.loadRegistration(ctx, pending.id)
		if err != nil {
			return err
		}
		tx.Delete(d.Key)
		switch {
		case !reg.needsProbe(), parseEndpoint(reg.Card) != endpoint:
			return nil // a later publication has its own entry
		case hasAnswered:
			reg.AwaitsProbe, reg.isReachable, isListed = false, true, true
			reg.recordChange(r.now())
			writes, err := r.registrationWrites(ctx, &reg, tx.ID)
			tx.AddWrites(writes...)
			return err
		}
		if isUnanswered = true; pending.ProbeCount < len(probePauses) {
			PendingProbeDocs.Put(tx, store.Doc{Key: pending.key(r.now().Add(probePauses[pending.ProbeCount]))}, pendingProbe{pending.id, pending.seq, pending.ProbeCount + 1})
		}
		return nil
	})
	return isListed, isUnanswered, err
}

func (g *Registration) needsProbe() bool {
	return g.AwaitsProbe && g.Visibility == lifecycle.Public && g.Status == StatusActive
}

// probeEndpoint returns an error only if ctx ends.
func (r *Registry) probeEndpoint(ctx context.Context, probe EndpointProbe, endpoint string) (bool, error) {
	probeCtx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := probe(probeCtx, endpoint)
	if ctx.Err() != nil {
		return false, problem.Wrap(problem.Unavailable, ctx.Err(), "the probe of an endpoint was interrupted")
	}
	return err == nil, nil
}

func decodePendingProbe(d store.Doc) (pendingProbe, error) {
	pending, err := pendingProbeCodec.Decode(d)
	parts := strings.Split(d.Key.Sort, "#")
	if err == nil && (len(parts) != 3 || pending.ProbeCount < 0) {
		err = errors.New("expected a due time, an id, a publication and the number of tries")
	}
	if err == nil {
		pending.id, err = identity.ParseID(parts[1])
	}
	if err == nil {
		pending.seq, err = strconv.ParseUint(parts[2], 16, 64)
	}
	return pending, err
}
