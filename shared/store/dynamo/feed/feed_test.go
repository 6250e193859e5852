package feed_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/shared/store/dynamo/feed"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
)

// fed is a store with the feed of its stream.
type fed struct {
	*dynamo.Store
	*feed.Feed
	tables dynamo.TableNames
	client *dynamodb.Client
}

// open opens tables in DynamoDB Local, with a stream of rows.
func open(tb testing.TB) *fed {
	tb.Helper()
	endpoint := dynamolocal.Start(tb)
	client, tables := dynamolocal.Client(endpoint), dynamolocal.Tables(tb, endpoint)
	s := &fed{dynamo.New(client, tables), feed.New(streams(endpoint), dynamolocal.Stream(tb, endpoint, tables)), tables, client}
	tb.Cleanup(func() { s.Store.Close() })
	return s
}

func streams(endpoint string) *dynamodbstreams.Client {
	return feed.NewClient(aws.Config{Region: "us-east-1", Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
	})}, func(o *dynamodbstreams.Options) { o.BaseEndpoint = &endpoint })
}

func TestTheFeedsContractHoldsOnDynamoDBLocal(t *testing.T) {
	storetest.RunFeed(t, storetest.Adapter{Open: func(tb testing.TB) store.Store { return open(tb) }})
}

func newID() (id store.WriteID) {
	rand.Read(id[:])
	return id
}

// all reads a feed from its beginning.
func all(t *testing.T, f store.Feed) (rows []store.FeedRow) {
	t.Helper()
	partitions, err := f.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range partitions {
		for offset := ""; ; {
			page, next, ended, err := f.RowsAfter(t.Context(), p.ID, offset, 100)
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, page...)
			if offset = next; ended || len(page) == 0 {
				break
			}
		}
	}
	return rows
}

// A role with the permission may write an item that is not a row, change a row, and remove one. The
// tamper detector reports that, and the feed continues.
func TestTheFeedSkipsWhatIsNoNewRow(t *testing.T) {
	s := open(t)
	one := store.Append{Stream: "one", Position: 1, WriteID: newID(), Data: []byte("first")}
	two := store.Append{Stream: "two", Position: 1, WriteID: newID(), Data: []byte("second")}
	put := func(item map[string]types.AttributeValue) {
		t.Helper()
		if _, err := s.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &s.tables.Rows, Item: item}); err != nil {
			t.Fatal(err)
		}
	}
	pk, sk := &types.AttributeValueMemberB{Value: []byte("one")}, &types.AttributeValueMemberN{Value: "1"}
	if err := s.Commit(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	put(map[string]types.AttributeValue{"pk": pk, "sk": sk, "d": pk})                                                                             // changes it
	put(map[string]types.AttributeValue{"pk": pk, "sk": &types.AttributeValueMemberN{Value: "7"}, "d": &types.AttributeValueMemberS{Value: "x"}}) // is none
	if _, err := s.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &s.tables.Rows, Key: map[string]types.AttributeValue{"pk": pk, "sk": sk}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	want := []store.FeedRow{}
	for _, a := range []store.Append{one, two} {
		want = append(want, store.FeedRow{Stream: a.Stream, Row: store.Row{Position: 1, WriteID: a.WriteID, Data: a.Data}})
	}
	got := all(t, s)
	slices.SortFunc(got, func(a, b store.FeedRow) int { return strings.Compare(string(a.Stream), string(b.Stream)) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows of the feed (-want +got):\n%s", diff)
	}
}

// stream is a DynamoDB Streams server whose shards and pages the test chooses. DynamoDB Local never
// ends or splits shards, trims rows or returns empty pages.
type stream struct {
	mu     sync.Mutex
	shards []string // "id parent"
	pages  map[string][]string
	calls  []string
	fail   map[string]string // by operation: the name of an exception, once
}

func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	body := new(strings.Builder)
	_, _ = fmt.Fprint(body, read(r))
	s.calls = append(s.calls, operation)
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if name := s.fail[operation]; name != "" {
		delete(s.fail, operation)
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"as the test says"}`, name)
		return
	}
	switch operation {
	case "DescribeStream":
		// Two shards a page.
		first := 0
		for i, shard := range s.shards {
			if id, _, _ := strings.Cut(shard, " "); strings.Contains(body.String(), `"ExclusiveStartShardId":"`+id+`"`) {
				first = i + 1
			}
		}
		var some []string
		last := ""
		for _, shard := range s.shards[first:min(first+2, len(s.shards))] {
			id, parent, _ := strings.Cut(shard, " ")
			text := fmt.Sprintf(`{"ShardId":%q`, id)
			if parent != "" {
				text += fmt.Sprintf(`,"ParentShardId":%q`, parent)
			}
			some = append(some, text+"}")
			last = id
		}
		more := ""
		if first+2 < len(s.shards) {
			more = fmt.Sprintf(`,"LastEvaluatedShardId":%q`, last)
		}
		fmt.Fprintf(w, `{"StreamDescription":{"Shards":[%s]%s}}`, strings.Join(some, ","), more)
	case "GetShardIterator":
		fmt.Fprint(w, `{"ShardIterator":"0"}`)
	case "GetRecords":
		at := 0
		fmt.Sscanf(body.String()[strings.Index(body.String(), `"ShardIterator":"`)+len(`"ShardIterator":"`):], "%d", &at)
		pages := s.pages["shard"]
		next := fmt.Sprintf(`,"NextShardIterator":"%d"`, min(at+1, len(pages)))
		if at+1 == len(pages) && pages[at] == "end" {
			next = ""
		}
		records := ""
		if at < len(pages) && strings.HasPrefix(pages[at], "row ") {
			records = fmt.Sprintf(`{"eventName":"INSERT","dynamodb":{"SequenceNumber":"%d","NewImage":{"pk":{"B":"cw=="},"sk":{"N":"%s"},"a":{"B":"AAAAAAAAAAAAAAAAAAAAAA=="},"d":{"B":""}}}}`, 100+at, pages[at][4:])
		}
		fmt.Fprintf(w, `{"Records":[%s]%s}`, records, next)
	}
}

func read(r *http.Request) string {
	b := make([]byte, r.ContentLength)
	_, _ = r.Body.Read(b)
	return string(b)
}

func serve(t *testing.T, s *stream) *feed.Feed {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return feed.New(streams(server.URL), "arn")
}

func TestParentsComeBeforeTheirChildren(t *testing.T) {
	f := serve(t, &stream{shards: []string{"d c", "b a", "c a", "a gone", "e"}})
	got, err := f.Partitions(t.Context())
	want := []store.Partition{{ID: "a", Parent: "gone"}, {ID: "c", Parent: "a"}, {ID: "d", Parent: "c"}, {ID: "b", Parent: "a"}, {ID: "e"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("Partitions() = %v (-want +got):\n%s", err, diff)
	}
}

// A stream returns empty pages before further records. The feed does not read skipped records
// again.
func TestTheFeedGoesOnThroughEmptyPages(t *testing.T) {
	empty := slices.Repeat([]string{""}, 7)
	s := &stream{pages: map[string][]string{"shard": append(append([]string{"row 1"}, empty...), "row 2", "end")}}
	f := serve(t, s)
	rows, offset, ended, err := f.RowsAfter(t.Context(), "shard", "", 10)
	if err != nil || len(rows) != 1 || offset != "100" || ended {
		t.Fatalf("RowsAfter() = %v, %q, %v, %v", rows, offset, ended, err)
	}
	rows, next, ended, err := f.RowsAfter(t.Context(), "shard", offset, 10)
	if err != nil || len(rows) != 0 || next != offset || ended {
		t.Fatalf("RowsAfter() in the gap = %v, %q, %v, %v", rows, next, ended, err)
	}
	rows, next, _, err = f.RowsAfter(t.Context(), "shard", offset, 10)
	if err != nil || len(rows) != 1 || rows[0].Position != 2 || next != "108" {
		t.Fatalf("RowsAfter() = %v, %q, %v, want row 2 beyond the gap", rows, next, err)
	}
	rows, last, ended, err := f.RowsAfter(t.Context(), "shard", next, 10)
	if err != nil || len(rows) != 0 || last != next || !ended {
		t.Fatalf("RowsAfter() at the end = %v, %q, %v, %v", rows, last, ended, err)
	}
	if n := len(slices.DeleteFunc(s.calls, func(c string) bool { return c != "GetShardIterator" })); n != 1 {
		t.Errorf("%d places were looked for, want 1", n)
	}
}

func TestFaultsOfTheStream(t *testing.T) {
	s := &stream{pages: map[string][]string{"shard": {"row 1", "row 2"}}, fail: map[string]string{}}
	f := serve(t, s)
	if _, _, _, err := f.RowsAfter(t.Context(), "shard", "", 1); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		operation, exception string
		want                 func(error) bool
	}{
		{"GetShardIterator", "TrimmedDataAccessException", func(err error) bool { return errors.Is(err, store.ErrTrimmed) }},
		{"GetShardIterator", "ResourceNotFoundException", func(err error) bool { return problem.Is(err, problem.NotFound) }},
		{"GetRecords", "TrimmedDataAccessException", func(err error) bool { return errors.Is(err, store.ErrTrimmed) }},
		{"GetRecords", "AccessDeniedException", func(err error) bool { return errors.Is(err, store.ErrUnavailable) }},
		{"GetRecords", "ExpiredIteratorException", func(err error) bool { return errors.Is(err, store.ErrUnavailable) }}, // of a fresh iterator
		{"DescribeStream", "AccessDeniedException", func(err error) bool { return errors.Is(err, store.ErrUnavailable) }},
	} {
		s.fail[tt.operation] = tt.exception
		_, _, _, err := f.RowsAfter(t.Context(), "shard", "99", 1)
		if tt.operation == "DescribeStream" {
			_, err = f.Partitions(t.Context())
		}
		if !tt.want(err) {
			t.Errorf("%s of %s = %v", tt.exception, tt.operation, err)
		}
	}
	// A cached iterator is replaced.
	if _, _, _, err := f.RowsAfter(t.Context(), "shard", "", 1); err != nil {
		t.Fatal(err)
	}
	s.fail["GetRecords"] = "ExpiredIteratorException"
	if rows, _, _, err := f.RowsAfter(t.Context(), "shard", "100", 1); err != nil || len(rows) != 1 {
		t.Errorf("RowsAfter() with an expired iterator = %v, %v", rows, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if _, _, _, err := f.RowsAfter(ctx, "shard", "", 1); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("RowsAfter() without time = %v", err)
	}
}
