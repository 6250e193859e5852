package finder_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/finder"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// function is Lambda with one function: what Answer answers, or what a test says.
type function struct {
	answer func(context.Context, json.RawMessage) (any, bool, error)
	fault  error
	crash  bool
	says   string
}

func (f *function) Invoke(ctx context.Context, in *lambda.InvokeInput, _ ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	if f.fault != nil {
		return nil, f.fault
	}
	if f.crash {
		return &lambda.InvokeOutput{FunctionError: aws.String("Unhandled"), Payload: []byte(`{"errorMessage":"hush"}`)}, nil
	}
	if f.says != "" {
		return &lambda.InvokeOutput{Payload: []byte(f.says)}, nil
	}
	reply, ok, err := f.answer(ctx, in.Payload)
	if !ok || err != nil {
		return &lambda.InvokeOutput{FunctionError: aws.String("Unhandled"), Payload: []byte(`{}`)}, nil
	}
	b, err := json.Marshal(reply)
	return &lambda.InvokeOutput{Payload: b}, err
}

// here says that all vacants are hosted here.
type here struct{}

func (here) IsEndpoint(context.Context, identity.ID, string) (bool, error) { return true, nil }

func TestWhatSearchFindsIsReadAgain(t *testing.T) {
	r := registry.New(registry.Config{Store: memory.New(), Now: time.Now, Rand: rand.Reader, Endpoints: here{}})
	p := registrytest.NewPublication(t, registrytest.Key(1), registrytest.Draft{SignedAt: time.Now()})
	if _, err := registrytest.PublishHosted(t.Context(), r, p); err != nil {
		t.Fatal(err)
	}
	listed, gone := registrytest.Key(1).ID(), registrytest.Key(2).ID()
	var log bytes.Buffer
	var asked search.Request
	f := &function{answer: finder.NewHandler(func(_ context.Context, q search.Request) (search.Page, error) {
		asked = q
		if q.Cursor == "x" {
			return search.Page{}, problem.Invalid("cursor", "one of an answer", `"x"`)
		}
		if q.Cursor == "down" {
			return search.Page{}, problem.Wrap(problem.Unavailable, errors.New("hush"), "no index")
		}
		return search.Page{Matches: []search.Match{{Registration: registry.Registration{ID: gone}}, {Registration: registry.Registration{ID: listed}}}, Next: "more"}, nil
	}, slog.New(slog.NewTextHandler(&log, nil)))}
	find := finder.NewFindFunc(f, "arn", r)
	most := int64(7)
	q := search.Request{Query: "dinner", Area: "Zürich", Bookable: true, MaxPrice: &most, Limit: 5}
	page, err := find(t.Context(), q)
	var ids []identity.ID
	for _, m := range page.Matches {
		ids = append(ids, m.Registration.ID)
	}
	if diff := cmp.Diff([]identity.ID{listed}, ids); diff != "" || err != nil || page.Next != "more" {
		t.Errorf("find() = %v, next %q (-want +got):\n%s", err, page.Next, diff)
	}
	if diff := cmp.Diff(q, asked); diff != "" {
		t.Errorf("search was asked (-want +got):\n%s", diff)
	}

	// A refusal is the caller's fault still; a failure is nobody's, and tells nothing.
	_, err = find(t.Context(), search.Request{Cursor: "x"})
	if p := problem.AsError(err); p.Kind != problem.Malformed || p.Field != "cursor" || p.Want != "one of an answer" {
		t.Errorf("a refused search = %v", err)
	}
	for name, broken := range map[string]function{
		"unreachable": {fault: errors.New("hush")}, "crashed": {crash: true}, "garbage": {says: "hush"}, "down": {answer: f.answer},
	} {
		_, err := finder.NewFindFunc(&broken, "arn", r)(t.Context(), search.Request{Cursor: "down"})
		if !problem.Is(err, problem.Unavailable) || strings.Contains(problem.AsError(err).Text(), "hush") {
			t.Errorf("%s: %v, want that searches are not answered now", name, err)
		}
	}
	for _, verdict := range []string{"verdict=ok", "verdict=malformed", "verdict=unavailable"} {
		if !strings.Contains(log.String(), verdict) {
			t.Errorf("the log has no %s:\n%s", verdict, log.String())
		}
	}
}

// An event of a Function URL is none of finder's, whatever its body.
func TestOtherEventsAreLeftToOthers(t *testing.T) {
	direct := finder.NewHandler(nil, slog.New(slog.DiscardHandler))
	for _, event := range []string{`{"rawPath":"/v1/search","body":"{\"find\":{}}"}`, `{"find":null}`, `[]`, ``, `{"find":7}`} {
		if _, ok, err := direct(t.Context(), json.RawMessage(event)); ok || err != nil {
			t.Errorf("NewHandler(%s) = %v, %v", event, ok, err)
		}
	}
}
