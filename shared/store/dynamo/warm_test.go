package dynamo_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// somewhere is the key of a document that does not exist.
var somewhere = store.Key{Partition: "warm", Sort: "warm"}

func TestWarmReadsBothTablesAtOnceAndWritesNothing(t *testing.T) {
	endpoint := dynamolocal.Start(t)
	proxy := faultproxy.Start(t, endpoint)
	tables := dynamolocal.Tables(t, endpoint)
	counter := &roundtrips.Counter{Hold: 1}
	var connections atomic.Int32
	front := httptest.NewUnstartedServer(proxy)
	front.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	front.Start()
	defer front.Close()
	s := dynamo.New(dynamolocal.Client(front.URL, counter.Option), tables)
	if err := s.Warm(t.Context(), somewhere); err != nil {
		t.Fatal(err)
	}
	reads := map[string]int{}
	for _, name := range counter.Operations() {
		reads[name]++
	}
	if len(reads) != 1 || reads["GetItem"] != 4 {
		t.Errorf("Warm() sent %v, want GetItem four times", reads)
	}
	opened := connections.Load()
	if _, err := s.Tip(t.Context(), "a"); err != nil || connections.Load() != opened {
		t.Errorf("Tip() after Warm() = %v on %d connections more, want none", err, connections.Load()-opened)
	}
}

func TestWarmSaysOfEachTableWhatIsWrong(t *testing.T) {
	endpoint := dynamolocal.Start(t)
	tables := dynamolocal.Tables(t, endpoint)
	refusing := func(code string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]string{"__type": "com.amazonaws.dynamodb.v20120810#" + code, "message": "no"})
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	for _, tt := range []struct {
		name     string
		endpoint string
		tables   dynamo.TableNames
		want     string
	}{
		{"both there", endpoint, tables, ""},
		{"no rows wanted", endpoint, dynamo.TableNames{Docs: tables.Docs}, ""},
		{"one missing", endpoint, dynamo.TableNames{Rows: tables.Rows, Docs: "docs-nowhere"},
			"table docs-nowhere: it is missing, or still being created"},
		{"exchanged", endpoint, dynamo.TableNames{Rows: tables.Docs, Docs: tables.Rows},
			"table " + tables.Docs + ": its key attributes are not pk and sk, which this version needs; is this the right table?; " +
				"table " + tables.Rows + ": its key attributes are not pk and sk, which this version needs; is this the right table?"},
		// AWS's description of a table whose status is CREATING.
		{"being created", refusing("ResourceNotFoundException"), dynamo.TableNames{Rows: "rows", Docs: "docs"},
			"table rows: it is missing, or still being created; table docs: it is missing, or still being created"},
		{"denied", refusing("AccessDeniedException"), dynamo.TableNames{Rows: "rows", Docs: "docs"},
			"table rows: the function's role may not read it; table docs: the function's role may not read it"},
		{"expired", refusing("ExpiredTokenException"), dynamo.TableNames{Rows: "rows", Docs: "docs"},
			"table rows: the credentials are expired or wrong (ExpiredTokenException); table docs: the credentials are expired or wrong (ExpiredTokenException)"},
		{"another refusal", refusing("RequestLimitExceeded"), dynamo.TableNames{Rows: "rows", Docs: "docs"},
			"table rows: DynamoDB answers RequestLimitExceeded; table docs: DynamoDB answers RequestLimitExceeded"},
		{"nobody there", "http://127.0.0.1:1", dynamo.TableNames{Rows: "rows", Docs: "docs"},
			"table rows: DynamoDB cannot be reached; table docs: DynamoDB cannot be reached"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := dynamo.New(dynamolocal.Client(tt.endpoint, func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 }), tt.tables)
			err := s.Warm(t.Context(), somewhere)
			got := ""
			if err != nil {
				got = problem.AsError(err).Text()
			}
			if got != tt.want || (err != nil && !problem.Is(err, problem.Unavailable)) {
				t.Errorf("Warm() = %q of kind %v,\nwant %q", got, problem.AsError(err), tt.want)
			}
		})
	}
}

func TestWarmIsRefusedOnAClosedStore(t *testing.T) {
	endpoint := dynamolocal.Start(t)
	s := dynamo.New(dynamolocal.Client(endpoint), dynamo.TableNames{Rows: "rows", Docs: "docs"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Warm(context.Background(), somewhere); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Warm() = %v, want %v", err, store.ErrClosed)
	}
}
