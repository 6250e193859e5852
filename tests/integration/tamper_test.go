package integration

import (
	"maps"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Somebody with the account's own credentials writes into the table of rows:
// the sentinel sees it within seconds, and verify names the row.
func TestARowChangedByHandIsSeenAndNamed(t *testing.T) {
	s := shared(t)
	tables, rows := s.tables(t)
	client := dynamodb.NewFromConfig(operator(s.aws), func(o *dynamodb.Options) { o.DisableValidateResponseChecksum = true })
	p := s.pair(t, s.vacant(t))
	p.say("one")
	p.say("two")
	stream := call.Pair{Caller: p.Key.ID(), Vacant: p.To}.Requests()
	key := map[string]types.AttributeValue{"pk": &types.AttributeValueMemberB{Value: []byte(stream)}, "sk": &types.AttributeValueMemberN{Value: "1"}}
	got, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &tables.Rows, Key: key, ConsistentRead: awssdk.Bool(true)})
	if err != nil || got.Item == nil {
		t.Fatalf("the row to change: %v, %v", got, err)
	}
	put := func(item map[string]types.AttributeValue) error {
		_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &tables.Rows, Item: item})
		return err
	}
	t.Cleanup(func() { // for the tests that want the stage whole
		if err := put(got.Item); err != nil {
			t.Error(err)
		}
	})
	second, err := rows.Rows(t.Context(), stream, 2, 1, store.Ascending)
	if err != nil || len(second) != 1 {
		t.Fatalf("the row to copy: %v, %v", second, err)
	}
	changed := maps.Clone(got.Item)
	changed["d"] = &types.AttributeValueMemberB{Value: second[0].Data} // readable, but of another place

	for _, tt := range []struct {
		name string
		do   func() error
	}{
		{"overwritten", func() error { return put(changed) }},
		{"removed", func() error {
			_, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &tables.Rows, Key: key})
			return err
		}},
	} {
		began := time.Now()
		if err := tt.do(); err != nil {
			t.Fatal(err)
		}
		all := s.lines(t, "sentinel", began, func(all []line) bool { return tampered(all) > 0 })
		t.Logf("%s: told after %v: %s", tt.name, time.Since(began).Round(100*time.Millisecond), last(all))
		v := s.verify(t, "aws")
		if v.OK || len(v.List) == 0 || !strings.Contains(string(v.List[0]), stream.String()) {
			t.Errorf("verify after a row was %s: %s, want a finding about %s", tt.name, v.List, stream)
		}
		if err := put(got.Item); err != nil {
			t.Fatal(err)
		}
	}
	s.whole(t)
}

// tampered are the rows that lines with a metrics block tell of.
func tampered(all []line) (n int) {
	for _, l := range all {
		if l.EMF != nil {
			n += l.Tampered
		}
	}
	return n
}
