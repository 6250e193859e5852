package lambda

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
)

// A process that stays warm while the tables come back from a backup neither
// writes behind the end of the restored rows, nor seals under a day's key that
// the restored table lacks.
func TestAWarmProcessNoticesThatTheTablesWereRestored(t *testing.T) {
	host := awshost.New(t)
	at := time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour) // no day ends during the test
	clock := func() time.Time { return at }
	warm := host.Open(t, host.Store(host.Endpoint), clock, nil)
	id := host.Create(t, "demo", nil)
	c := caller.New(t, id)
	for i := range 4 {
		at = at.Add(time.Second)
		e := c.Call(fmt.Sprint("call ", i+1), at)
		if o := warm.Calls.Send(t.Context(), identity.ID{}, e); o.Problem != nil {
			t.Fatal(o.Problem)
		}
		c.Accepted(e)
	}

	// The backup was made after the first call, and before the key of its day.
	client := dynamolocal.Client(host.Endpoint)
	remove := func(table string, pk, sk types.AttributeValue) {
		t.Helper()
		if _, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &table,
			Key: map[string]types.AttributeValue{"pk": pk, "sk": sk}}); err != nil {
			t.Fatal(err)
		}
	}
	pair := call.Pair{Caller: c.Key.ID(), Vacant: id}
	for _, s := range []store.Stream{pair.Requests(), pair.Responses()} {
		for p := 2; p <= 4; p++ {
			remove(host.Tables.Rows, &types.AttributeValueMemberB{Value: []byte(s)}, &types.AttributeValueMemberN{Value: fmt.Sprint(p)})
		}
	}
	remove(host.Tables.Docs, &types.AttributeValueMemberS{Value: "textkey"}, &types.AttributeValueMemberS{Value: at.Format(time.DateOnly)})

	// The operator says so, by another process. The bound passes while the first
	// one stays warm.
	at = at.Add(time.Second)
	other := host.Open(t, host.Store(host.Endpoint), clock, nil)
	if all, err := other.Vacants.RaiseFloors(t.Context()); all.Vacants != 1 || err != nil {
		t.Fatalf("RaiseFloors() = %+v, %v; want 1 vacant", all, err)
	}
	at = at.Add(call.MaxSkew + time.Minute)

	fifth := c.Call("call 5", at)
	o := warm.Calls.Send(t.Context(), identity.ID{}, fifth)
	if o.Problem == nil || o.Problem.Kind != problem.Gap || o.ExpectedSeq != 2 {
		t.Errorf("call 5 at the warm process: %v, expected_seq %d; want a gap, and 2", o.Problem, o.ExpectedSeq)
	}
	at = at.Add(time.Second)
	if o := warm.Calls.Reset(t.Context(), identity.ID{}, c.Reset(at)); o.Problem != nil {
		t.Fatalf("reset: %v", o.Problem)
	}
	at = at.Add(time.Second)
	first := caller.New(t, id)
	first.Key = c.Key
	again := first.Call("call 1 again", at)
	if o := warm.Calls.Send(t.Context(), identity.ID{}, again); o.Problem != nil {
		t.Fatalf("the first call of the new chain: %v", o.Problem)
	}
	for _, s := range []store.Stream{pair.Requests(), pair.Responses()} {
		rows, err := host.Store(host.Endpoint).Rows(t.Context(), s, 1, 10, store.Ascending)
		tip, tipErr := host.Store(host.Endpoint).Tip(t.Context(), s)
		if err != nil || tipErr != nil || uint64(len(rows)) != tip.Position || tip.Position < 2 {
			t.Errorf("stream of %d rows ends at %d (%v, %v), want no gap", len(rows), tip.Position, err, tipErr)
		}
	}
	cold := host.Open(t, host.Store(host.Endpoint), clock, nil)
	if o := cold.Calls.Ask(t.Context(), identity.ID{}, again); o.State != call.Answered || o.Reply == nil {
		t.Errorf("a cold process shows the call as %q (%v), want it answered with its text", o.State, o.Problem)
	}
}
