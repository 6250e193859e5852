//go:build unix

package kills

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/tests/caller"
)

// busy is a caller under load: its acknowledged calls, and the one call that
// was under way when its host died.
type busy struct {
	*caller.Caller
	acknowledged []acknowledgement
	underWay     *envelope.Envelope
}

type acknowledgement struct {
	e   *envelope.Envelope
	raw string // the answer's bytes
}

// link posts to one host over kept connections.
type link struct {
	client http.Client
	url    string
}

func newLink(t *testing.T, p process) *link {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &link{http.Client{Transport: transport, Timeout: await.Limit}, p.(*dev).ready.URL}
}

func (l *link) post(path string, e *envelope.Envelope) (caller.Answer, error) {
	resp, err := l.client.Post(l.url+path, "application/json", bytes.NewReader(caller.Body(e)))
	if err != nil {
		return caller.Answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return caller.Answer{}, err
	}
	return caller.Read(e, resp.StatusCode, body)
}

// A host under load is killed at a random moment. Everything that it had
// acknowledged, accepted calls and answers, is there after a restart.
func TestAcknowledgedWritesSurviveKill9(t *testing.T) {
	const callers, rounds, answers = 16, 3, 400
	s := &stage{t: t, ctx: t.Context(), target: newDevTarget(t, false)}
	vacant := s.target.vacant(t, "echo")
	everybody := make([]*busy, callers)
	for i := range everybody {
		everybody[i] = &busy{Caller: caller.New(t, vacant)}
	}
	for round := range rounds {
		p := s.target.start(t, nil)
		if round > 0 {
			resume(t, newLink(t, p), everybody)
		}
		load(t, newLink(t, p), everybody, s.target.now(), answers, p.stop)
		s.whole()
	}
	p := s.target.start(t, nil)
	resume(t, newLink(t, p), everybody)
	all(t, everybody, func(b *busy) {
		l := newLink(t, p)
		for _, a := range b.acknowledged {
			switch got, err := l.post(caller.AskPath, a.e); {
			case err != nil:
				t.Errorf("ask: %v", err)
				return
			case got.State != string(call.Answered) || string(got.Raw) != a.raw:
				t.Errorf("acknowledged, and now: %v\n%s\nwant\n%s", got, got.Raw, a.raw)
			}
		}
	})
	found := 0
	for _, b := range everybody {
		found += len(b.acknowledged)
	}
	t.Logf("%d acknowledged calls are there after %d kills", found, rounds)
}

// all runs f for every caller at once.
func all(t *testing.T, everybody []*busy, f func(*busy)) {
	t.Helper()
	var wg sync.WaitGroup
	for _, b := range everybody {
		wg.Go(func() { f(b) })
	}
	wg.Wait()
}

// load makes everybody call until the host dies, which kill causes after so
// many answers.
func load(t *testing.T, l *link, everybody []*busy, at time.Time, answers int, kill func()) {
	t.Helper()
	answered, ended := make(chan struct{}, answers+len(everybody)), make(chan struct{})
	go func() {
		defer close(ended)
		for range answers {
			<-answered
		}
		kill()
	}()
	all(t, everybody, func(b *busy) {
		for {
			e := b.Call("under load", at)
			a, err := l.post(caller.SendPath, e)
			if err == nil && a.Status != 200 {
				t.Errorf("a call under load: %v", a)
			}
			if err != nil || a.Status != 200 {
				b.underWay = e
				return
			}
			b.acknowledged = append(b.acknowledged, acknowledgement{e, string(a.Raw)})
			b.Accepted(e)
			select {
			case answered <- struct{}{}:
			default: // enough
			}
		}
	})
	// The callers' connections break before the process has ended, and its
	// admin socket answers until then.
	close(answered)
	<-ended
}

// resume sends again what was under way: it is accepted now, or was before.
// Then the chain continues.
func resume(t *testing.T, l *link, everybody []*busy) {
	t.Helper()
	all(t, everybody, func(b *busy) {
		a, err := l.post(caller.SendPath, b.underWay)
		switch {
		case err != nil:
			t.Error(err)
		case a.Status == 200, a.State == string(call.Answered):
			b.acknowledged = append(b.acknowledged, acknowledgement{b.underWay, string(a.Raw)})
		case a.State != string(call.Pending):
			t.Errorf("what was under way: %v, want its answer or pending", a)
		}
		b.Accepted(b.underWay)
	})
}
