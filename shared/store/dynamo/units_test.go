package dynamo_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

func number(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }
func text(s string) types.AttributeValue   { return &types.AttributeValueMemberS{Value: s} }
func blob(n int) types.AttributeValue      { return &types.AttributeValueMemberB{Value: make([]byte, n)} }

var valueSizes = []struct {
	value types.AttributeValue
	size  int
}{
	{text(""), 0}, {text("abc"), 3}, {text("é"), 2}, {text("日本"), 6}, {blob(0), 0}, {blob(68), 68},
	{number("0"), 1}, {number("1"), 2}, {number("99"), 2}, {number("100"), 2}, {number("120"), 3}, {number("1000"), 2},
	{number("1230"), 3}, {number("12345"), 4}, {number("9223372036854775807"), 11}, {number("-1"), 3},
	{number("-9223372036854775808"), 12}, {number("1.5"), 3}, {number("0.001"), 2}, {number("10.5"), 3},
	{&types.AttributeValueMemberBOOL{Value: true}, 1}, {&types.AttributeValueMemberNULL{Value: true}, 1},
	{&types.AttributeValueMemberL{}, 3},
	{&types.AttributeValueMemberL{Value: []types.AttributeValue{text("ab"), number("1")}}, 3 + 1 + 2 + 1 + 2},
	{&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"xy": text("ab")}}, 3 + 1 + 2 + 2},
	{&types.AttributeValueMemberSS{Value: []string{"a", "bc"}}, 3},
	{&types.AttributeValueMemberNS{Value: []string{"1", "123"}}, 2 + 3},
	{&types.AttributeValueMemberBS{Value: [][]byte{{1}, {2, 3}}}, 3},
}

func TestItemSizeIsWhatDynamoDBChargesToTheByte(t *testing.T) {
	endpoint := dynamolocal.Start(t)
	tables, client := dynamolocal.Tables(t, endpoint), dynamolocal.Client(endpoint)
	put := func(it map[string]types.AttributeValue) float64 {
		out, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &tables.Docs, Item: it,
			ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal})
		if err != nil {
			t.Fatalf("PutItem(%v) = %v", it["value"], err)
		}
		return *out.ConsumedCapacity.CapacityUnits
	}
	for i, tt := range valueSizes {
		fixed := len("pk") + len("p") + len("sk") + len(fmt.Sprint(100+i)) + len("value") + tt.size + len("pad")
		item := func(size int) map[string]types.AttributeValue {
			return map[string]types.AttributeValue{"pk": text("p"), "sk": text(fmt.Sprint(100 + i)),
				"value": tt.value, "pad": blob(size - fixed)}
		}
		if got := dynamo.ItemSize(item(1024)); got != 1024 {
			t.Errorf("ItemSize(%#v) = %d, want 1024", tt.value, got)
		}
		if full, over := put(item(1024)), put(item(1025)); full != 1 || over != 2 {
			t.Errorf("items of 1024 and 1025 bytes with %#v cost %v and %v units, want 1 and 2", tt.value, full, over)
		}
	}
}

func TestWriteUnitsAreWholeAndDoubleInATransaction(t *testing.T) {
	for _, tt := range []struct {
		sizes []int
		want  int
	}{
		{nil, 0}, {[]int{1}, 1}, {[]int{1024}, 1}, {[]int{1025}, 2}, {[]int{400 << 10}, 400},
		{[]int{1, 1}, 4}, {[]int{1024, 1025, 10}, 8},
	} {
		if got := dynamo.WriteUnits(tt.sizes...); got != tt.want {
			t.Errorf("WriteUnits(%v) = %d, want %d", tt.sizes, got, tt.want)
		}
	}
}

// callRow is the largest row of a call: 450 bytes besides the texts, of which
// the adapter uses the key, the write id and its attribute names.
func callRow(stream store.Stream, position uint64, message int) store.Append {
	a := store.Append{Stream: stream, Position: position, WriteID: newAttempt()}
	a.Data = make([]byte, 450-dynamo.RowSize(a)+message)
	return a
}

func pair() (request, response store.Stream) {
	var from, to identity.ID
	copy(from[:], strings.Repeat("f", identity.Size))
	copy(to[:], strings.Repeat("t", identity.Size))
	return store.StreamOf(store.KindRequest, from, to), store.StreamOf(store.KindResponse, from, to)
}

func TestCallCostsTwoWriteUnitsBelowOneKilobyte(t *testing.T) {
	endpoint := dynamolocal.Start(t)
	counter := &roundtrips.Counter{}
	s := dynamo.New(dynamolocal.Client(endpoint, counter.Option), dynamolocal.Tables(t, endpoint))
	requests, responses := pair()
	balance := store.Key{Partition: "account", Sort: "balance"}
	reminder := store.Key{Partition: "due", Sort: "one"}
	position := uint64(0)
	t.Log("message KB   units of a call: free   priced (request, debit and reminder; answer; reminder swept)")
	for _, tt := range []struct {
		message      int
		free, priced int
	}{
		{512, 2, 8},
		{1 << 10, 4, 11},
		{4 << 10, 10, 20},
		{16 << 10, 34, 56},
		{64 << 10, 130, 200},
	} {
		position++
		counter.Reset()
		for _, stream := range []store.Stream{requests, responses} {
			if err := s.Commit(t.Context(), callRow(stream, position, tt.message)); err != nil {
				t.Fatal(err)
			}
		}
		free := counter.WriteUnits()

		position++
		counter.Reset()
		if err := s.Commit(t.Context(), callRow(requests, position, tt.message),
			store.Add{Key: balance, Max: 100}, store.Put{Key: reminder, WriteID: newAttempt()}); err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), callRow(responses, position, tt.message)); err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), store.Delete{Key: reminder, IfVersion: 1}); err != nil {
			t.Fatal(err)
		}
		priced := counter.WriteUnits()
		t.Logf("%10.1f %29v %8v", float64(tt.message)/1024, free, priced)
		if diff := cmp.Diff([]float64{float64(tt.free), float64(tt.priced)}, []float64{free, priced}); diff != "" {
			t.Errorf("units of a call of %d bytes (-want +got):\n%s", tt.message, diff)
		}
	}
}

// The limit for the codec of rows: the rest of the first kilobyte after the
// adapter's own share.
func TestRowOfAPairLeavesThisMuchOfAKilobyte(t *testing.T) {
	requests, _ := pair()
	for _, tt := range []struct {
		position uint64
		own      int
	}{{1, 92}, {99, 92}, {9_999, 93}, {1_000_000, 92}, {1_234_567, 95}, {math.MaxInt64, 101}} {
		if got := dynamo.RowSize(store.Append{Stream: requests, Position: tt.position}); got != tt.own {
			t.Errorf("RowSize() of an empty row at %d = %d, want %d", tt.position, got, tt.own)
		}
	}
}

func TestRoundTripsOfTheStore(t *testing.T) {
	endpoint := dynamolocal.Start(t)
	tables := dynamolocal.Tables(t, endpoint)
	counter := &roundtrips.Counter{}
	open := func() *dynamo.Store { return dynamo.New(dynamolocal.Client(endpoint, counter.Option), tables) }
	requests, _ := pair()
	row := func(p uint64) store.Append {
		return store.Append{Stream: requests, Position: p, WriteID: newAttempt()}
	}
	takenBy := func(err error, p uint64) {
		t.Helper()
		taken, ok := errors.AsType[*store.TakenError](err)
		if !ok || taken.Occupant.Position != p {
			t.Errorf("Commit() = %v, want a TakenError with the occupant at %d", err, p)
		}
	}
	warm := open()
	steps := []struct {
		fact string
		do   func()
		want []string
	}{
		{"the first row needs no proof", func() { warm.Commit(t.Context(), row(1)) }, []string{"PutItem"}},
		{"nor does the next of one's own", func() { warm.Commit(t.Context(), row(2)) }, []string{"PutItem"}},
		{"a tip read is the proof", func() {
			s := open()
			s.Tip(t.Context(), requests)
			s.Commit(t.Context(), row(3))
		}, []string{"Query", "PutItem"}},
		{"so is a page", func() {
			s := open()
			s.Rows(t.Context(), requests, 1, 10, store.Ascending)
			s.Commit(t.Context(), row(4))
		}, []string{"Query", "PutItem"}},
		{"and the row that took the place", func() {
			takenBy(warm.Commit(t.Context(), row(3)), 3)
			takenBy(warm.Commit(t.Context(), row(4)), 4)
			warm.Commit(t.Context(), row(5))
		}, []string{"PutItem", "PutItem", "PutItem"}},
		{"a process that knows nothing reads the row below", func() { open().Commit(t.Context(), row(6)) },
			[]string{"GetItem", "PutItem"}},
		{"a position beyond the next is refused without a write", func() {
			takenBy(warm.Commit(t.Context(), row(9)), 0)
		}, []string{"GetItem"}},
		{"of two appends the first refusal is told", func() {
			takenBy(open().Commit(t.Context(), row(6), store.Append{Stream: "other", Position: 2, WriteID: newAttempt()}), 6)
		}, []string{"GetItem", "GetItem", "GetItem"}},
		{"several writes are one transaction", func() {
			warm.Commit(t.Context(), row(7), store.Put{Key: store.Key{Partition: "p", Sort: "s"}, WriteID: newAttempt()})
		}, []string{"GetItem", "TransactWriteItems"}},
		{"a document is one get", func() { warm.Doc(t.Context(), store.Key{Partition: "p", Sort: "s"}) }, []string{"GetItem"}},
		{"documents are one query", func() { warm.Docs(t.Context(), store.Range{Partition: "p"}, 10, "") }, []string{"Query"}},
		{"opening asks nothing", func() { open() }, nil},
	}
	for _, step := range steps {
		counter.Reset()
		step.do()
		if diff := cmp.Diff(step.want, counter.Operations()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.fact, diff)
		}
		for _, call := range counter.Calls() {
			if _, refused := errors.AsType[*types.ConditionalCheckFailedException](call.Err); call.Err != nil && !refused {
				t.Errorf("%s: %s = %v", step.fact, call.Operation, call.Err)
			}
		}
	}
	tip, err := warm.Tip(t.Context(), requests)
	if err != nil || tip.Position != 7 {
		t.Errorf("Tip() = %d, %v, want 7", tip.Position, err)
	}
}
