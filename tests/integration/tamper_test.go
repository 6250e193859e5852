package integration

import (
	"context"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/store"
)

// The account's owner writes to the table of rows: the tamper detector sees it
// within seconds, and verify names the row.
func TestARowChangedByHandIsSeenAndNamed(t *testing.T) {
	s := shared(t)
	began := time.Now()
	s.invoke(t, "admin-canary")
	s.lines(t, "tamper", began, func(all []line) bool {
		return slices.ContainsFunc(all, func(l line) bool { return l.Canaries == 1 && l.EMF != nil })
	})
	s.tamper(t)
	s.whole(t)
}

// tamper overwrites and removes a row, and restores it.
func (s *deployed) tamper(t *testing.T) {
	t.Helper()
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
		_, err := client.PutItem(context.WithoutCancel(t.Context()), &dynamodb.PutItemInput{TableName: &tables.Rows, Item: item})
		return err
	}
	defer func() { // whatever fails here, other tests need the stage intact
		if err := put(got.Item); err != nil {
			t.Error(err)
		}
	}()
	second, err := rows.Rows(t.Context(), stream, 2, 1, store.Ascending)
	if err != nil || len(second) != 1 {
		t.Fatalf("the row to copy: %v, %v", second, err)
	}
	changed := maps.Clone(got.Item)
	changed["d"] = &types.AttributeValueMemberB{Value: second[0].Data} // readable, but of another position
	remove := func() error {
		_, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &tables.Rows, Key: key})
		return err
	}
	for _, tt := range []struct {
		event string
		do    func() error
	}{
		{"MODIFY", func() error { return put(changed) }},
		{"REMOVE", remove},
	} {
		if testing.Short() && tt.event != "REMOVE" {
			continue
		}
		began := time.Now()
		if err := tt.do(); err != nil {
			t.Fatal(err)
		}
		told := func(l line) bool {
			return l.Event == tt.event && l.Stream == hex.EncodeToString([]byte(stream)) && l.Position == "1" && l.Tampered == 1 && l.EMF != nil
		}
		s.lines(t, "tamper", began, func(all []line) bool { return slices.ContainsFunc(all, told) })
		t.Logf("%s: told after %v", tt.event, time.Since(began).Round(100*time.Millisecond))
		v := s.verify(t, "aws")
		if v.OK || len(v.List) == 0 || !strings.Contains(string(v.List[0]), stream.String()) {
			t.Errorf("verify after a %s of a row: %s, want a finding about %s", tt.event, v.List, stream)
		}
		if err := put(got.Item); err != nil {
			t.Fatal(err)
		}
	}
}
