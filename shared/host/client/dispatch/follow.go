package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

type streamer interface {
	Open(ctx context.Context, r outbound.Request) (*http.Response, error)
}

func (r *run) remainingWait(due time.Time) time.Duration {
	rest := r.caller.waitLimit() - r.waitedTime
	if due.IsZero() || r.caller.MaxDueWait == 0 {
		return rest
	}
	due = due.Add(-r.state.ClockOffset)
	if r.caller.OnDue != nil {
		r.caller.OnDue(due)
	}
	return max(rest, min(due.Sub(r.caller.currentTime())+dueMargin, r.caller.MaxDueWait-r.waitedTime))
}

func (r *run) awaitAnswer(ctx context.Context, e *envelope.Envelope, remaining time.Duration, pendingReplies int) error {
	transport, ok := r.caller.Transport.(streamer)
	if !ok || r.streamRefused || r.lastWaitStreamed {
		r.lastWaitStreamed = false
		return r.pause(ctx, pendingReplies)
	}
	r.lastWaitStreamed = true
	start := r.caller.currentTime()
	streamCtx, cancel := context.WithTimeout(ctx, remaining)
	err := r.streamAnswer(streamCtx, transport, e)
	cancel()
	r.waitedTime += r.caller.currentTime().Sub(start)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return r.pause(ctx, pendingReplies)
}

func (r *run) streamAnswer(ctx context.Context, transport streamer, e *envelope.Envelope) error {
	// The stream is discarded, because the following resend gets the answer.
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": a2awire.MethodName(a2awire.V1, a2awire.Stream),
		"params": json.RawMessage(a2awire.EncodeSendParams(a2awire.V1, &a2awire.SendRequest{Message: a2awire.EnvelopeMessage(e)})),
	})
	if err != nil {
		return err
	}
	res, err := transport.Open(ctx, outbound.Request{Method: http.MethodPost, URL: r.withMaxPrice(r.callURLs.stream), Body: body, Header: http.Header{
		"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "A2a-Version": {"1.0"},
	}})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); res.StatusCode != http.StatusOK || media != "text/event-stream" {
		r.streamRefused = true
		return errors.New("the host does not stream this call")
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}
