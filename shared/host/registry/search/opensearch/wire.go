package opensearch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/opensearch-project/opensearch-go/v4"
)

type object map[string]any

// request implements opensearch.Request.
type request struct {
	method, path string
	params       url.Values
	body         []byte
}

func (r request) GetRequest() (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	target := url.URL{Path: r.path, RawQuery: r.params.Encode()}
	out, err := http.NewRequest(r.method, target.String(), body) // the client adds the context
	if err == nil && body != nil {
		out.Header.Set("Content-Type", "application/json")
	}
	return out, err
}

// answerError is an error response of the cluster.
type answerError struct {
	Status       int
	Type, Reason string
}

func (e *answerError) Error() string {
	return fmt.Sprintf("OpenSearch answered %d %s: %s", e.Status, e.Type, e.Reason)
}

// do sends body as JSON and stores the decoded response in the value that into points to. body and
// into may be nil. All errors are Unavailable, because the caller cannot correct a request that
// this package has built.
func (x *Index) do(ctx context.Context, method, path string, params url.Values, body any, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return unavailable(err)
		}
	}
	return x.send(ctx, request{method, path, params, text}, into)
}

func (x *Index) send(ctx context.Context, r request, into any) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	answer, err := x.client.Do(ctx, r, nil)
	if err != nil {
		// The client's error may not wrap the context's error.
		if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
			err = errors.Join(err, ended)
		}
		return unavailable(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return unavailable(err)
	}
	if answer.IsError() {
		return unavailable(refusal(answer.StatusCode, text))
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return unavailable(fmt.Errorf("OpenSearch's answer to %s %s: %w", r.method, r.path, err))
	}
	return nil
}

func refusal(status int, text []byte) *answerError {
	// A proxy in front of the cluster may return any response, so it is parsed as far as possible.
	var answer struct {
		Error struct{ Type, Reason string }
	}
	e := &answerError{Status: status}
	if err := json.Unmarshal(text, &answer); err == nil {
		e.Type, e.Reason = answer.Error.Type, answer.Error.Reason
		return e
	}
	const most = 200
	e.Reason = fmt.Sprintf("%q", text[:min(len(text), most)])
	return e
}

// maxAnswer limits a response in bytes. It is far larger than a page of hits or the response to a
// batch.
const maxAnswer = 16 << 20

// bounded limits the size of responses.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil {
		answer.Body = &boundedBody{answer.Body, maxAnswer}
	}
	return answer, err
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

var errLong = fmt.Errorf("OpenSearch's answer is longer than %d bytes", int64(maxAnswer))

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

var _ opensearch.Request = request{}
