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
	// MaxConcurrentProbes limits the endpoints that one call of Reach probes. It probes them
	// concurrently, so that many hanging servers take no longer than one.
	MaxConcurrentProbes = 64
	probeTime           = 3 * time.Second
	probeReply          = 1 << 10 // bytes; the publisher chooses the server, and the content does not matter
)

// pauses are the times between probes of an endpoint that does not answer. After the last probe,
// the vacant stays unlisted until it publishes again.
var pauses = []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour}

// EndpointProbe sends a request to an endpoint. It returns nil if the endpoint answers with an HTTP
// status below 500.
type EndpointProbe func(ctx context.Context, endpoint string) error

func NewProbe(c *outbound.Client) EndpointProbe {
	return func(ctx context.Context, endpoint string) error {
		reply, err := c.Do(ctx, outbound.HostActor(outbound.Stranger), outbound.Request{Method: http.MethodGet, URL: endpoint, MaxReply: probeReply})
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

// wait is an endpoint that waits for a probe. The key contains the vacant's id and the
// publication's seq.
type wait struct {
	id    identity.ID
	seq   uint64 // seq of the publication
	Tries int    `json:"tries"` // number of probes so far
}

// Waiting returns a channel that receives a value after a publication whose endpoint must be
// probed.
func (r *Registry) Waiting() <-chan struct{} { return r.waiting }

func (r *Registry) wake() {
	select {
	case r.waiting <- struct{}{}:
	default: // a value is already waiting
	}
}

type ReachResult struct {
	Listed int  // vacants that were listed because their endpoints answer
	Silent int  // endpoints that do not answer
	More   bool // whether more endpoints are due
}

// Reach probes up to MaxConcurrentProbes due endpoints and lists the vacants whose endpoints
// answer. It schedules another probe for the others. If a call is interrupted, the next call
// completes its work.
func (r *Registry) Reach(ctx context.Context, probe EndpointProbe) (ReachResult, error) {
	now := r.now()
	until := UnreachedDocs.Range()
	until.Last = ChangeKeyAt(now) + "#~"
	due, cursor, err := r.Store.Docs(ctx, until, MaxConcurrentProbes, "")
	if err != nil {
		return ReachResult{}, WrapStoreError(err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	out, failures := ReachResult{More: cursor != ""}, []error(nil)
	for _, d := range due {
		wg.Go(func() {
			listed, tried, err := r.reach(ctx, d, probe)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failures = append(failures, err)
			case listed:
				out.Listed++
			case tried:
				out.Silent++
			}
		})
	}
	wg.Wait()
	return out, WrapStoreError(errors.Join(failures...))
}

// reach probes one endpoint. It skips a vacant that was hidden or revoked since its publication,
// and returns false for both results.
func (r *Registry) reach(ctx context.Context, d store.Doc, probe EndpointProbe) (listed, tried bool, err error) {
	w, err := UnreachedDocs.Parse(d)
	if err != nil {
		return false, false, err
	}
	g, err := r.registration(ctx, w.id)
	if err != nil {
		return false, false, err
	}
	endpoint, answers := "", false
	if g.awaitsProbe() {
		endpoint = endpointOf(g.Card)
		if answers, err = r.probeEndpoint(ctx, probe, endpoint); err != nil {
			return false, false, err
		}
	}
	err = r.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		listed, tried = false, false // a previous try may have set them
		entry, err := tx.Doc(ctx, d.Key)
		if err != nil || entry.Version == 0 {
			return err // another process was faster
		}
		g, err := r.registration(ctx, w.id)
		if err != nil {
			return err
		}
		tx.Delete(d.Key)
		switch {
		case !g.awaitsProbe(), endpointOf(g.Card) != endpoint:
			return nil // a later publication has its own entry
		case answers:
			g.AwaitsProbe, g.reached, listed = false, true, true
			g.touch(r.now())
			writes, err := r.writes(ctx, &g, tx.ID)
			tx.Add(writes...)
			return err
		}
		if tried = true; w.Tries < len(pauses) {
			UnreachedDocs.Put(tx, store.Doc{Key: w.key(r.now().Add(pauses[w.Tries]))}, wait{w.id, w.seq, w.Tries + 1})
		}
		return nil
	})
	return listed, tried, err
}

func (g *Registration) awaitsProbe() bool {
	return g.AwaitsProbe && g.Visibility == lifecycle.Public && g.Status == StatusActive
}

// probeEndpoint reports whether an endpoint answers. It returns an error only if ctx ends.
func (r *Registry) probeEndpoint(ctx context.Context, probe EndpointProbe, endpoint string) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	err := probe(limited, endpoint)
	if ctx.Err() != nil {
		return false, problem.Wrap(problem.Unavailable, ctx.Err(), "the probe of an endpoint was interrupted")
	}
	return err == nil, nil
}

func decodeWait(d store.Doc) (wait, error) {
	w, err := waits.Decode(d)
	parts := strings.Split(d.Key.Sort, "#")
	if err == nil && (len(parts) != 3 || w.Tries < 0) {
		err = errors.New("expected a due time, an id, a publication and the number of tries")
	}
	if err == nil {
		w.id, err = identity.ParseID(parts[1])
	}
	if err == nil {
		w.seq, err = strconv.ParseUint(parts[2], 16, 64)
	}
	return w, err
}
