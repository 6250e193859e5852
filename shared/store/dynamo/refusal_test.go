package dynamo

import (
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

var (
	mine, others = store.WriteID{1}, store.WriteID{2}

	rowWrite = store.Append{Stream: "s", Position: 2, WriteID: mine}
	putWrite = store.Put{Key: store.Key{Partition: "p", Sort: "put"}, IfVersion: 1, WriteID: mine}
	addWrite = store.Add{Key: store.Key{Partition: "p", Sort: "add"}, Delta: 1, Max: 5}
	delWrite = store.Delete{Key: store.Key{Partition: "p", Sort: "delete"}, IfVersion: 1}
)

// canceled is a cancelled transaction whose reasons are, for each write, an
// item that failed a condition or another code.
func canceled(reasons ...any) error {
	e := &types.TransactionCanceledException{}
	for _, r := range reasons {
		reason := types.CancellationReason{Code: aws.String("None")}
		switch r := r.(type) {
		case string:
			reason.Code = &r
		case item:
			reason.Code, reason.Item = aws.String("ConditionalCheckFailed"), r
		}
		e.CancellationReasons = append(e.CancellationReasons, reason)
	}
	return fmt.Errorf("operation error DynamoDB: TransactWriteItems: %w", e)
}

func TestRefusalsFollowTheContractsOrder(t *testing.T) {
	row := func(a store.WriteID) item { return rowItem(store.Append{Stream: "s", Position: 2, WriteID: a}) }
	doc := func(v uint64, a store.WriteID, n int64) item {
		return docItem(store.Put{Key: putWrite.Key, IfVersion: v - 1, WriteID: a, Number: n})
	}
	taken := &store.TakenError{Stream: "s", Position: 2, Occupant: store.Row{Position: 2, WriteID: others, Data: []byte{}}}
	bounds := &store.BoundsError{Key: addWrite.Key, Number: 5}
	conflict := &store.ConflictError{Key: putWrite.Key, Version: 3}
	writes := []store.Write{putWrite, delWrite, addWrite, rowWrite}
	for _, tt := range []struct {
		name    string
		err     error
		applied bool
		certain bool
		want    error
	}{
		{"taken before all others", canceled(doc(3, others, 0), doc(3, others, 0), doc(1, others, 5), row(others)), false, true, taken},
		{"bounds before conflict", canceled(doc(3, others, 0), doc(3, others, 0), doc(1, others, 5), nil), false, true, bounds},
		{"the first conflict", canceled(doc(3, others, 0), doc(7, others, 0), nil, nil), false, true, conflict},
		{"a put on what is absent", canceled(item(nil), nil, nil, nil), false, true, &store.ConflictError{Key: putWrite.Key}},
		{"a delete of another version", canceled(nil, doc(7, others, 0), nil, nil), false, true,
			&store.ConflictError{Key: delWrite.Key, Version: 7}},
		{"an add that finds nothing stands at 0", canceled(nil, nil, item(nil), nil), false, true, &store.BoundsError{Key: addWrite.Key}},
		{"an own row is the whole commit applied", canceled(doc(3, others, 0), nil, doc(1, others, 5), row(mine)), true, true, nil},
		{"an own document too, changed by adds since", canceled(doc(9, mine, 0), nil, nil, row(others)), true, true, nil},
		{"an attempt on the document of an add or delete is not the commit's",
			canceled(nil, doc(3, mine, 0), doc(1, mine, 5), nil), false, true, bounds},
		{"a conflict beside makes it uncertain", canceled(doc(3, others, 0), nil, nil, "TransactionConflict"), false, false, nil},
		{"an own row is certain all the same", canceled("ThrottlingError", nil, nil, row(mine)), true, false, nil},
		{"reasons of another length are no reasons", canceled(row(mine)), false, false, nil},
		{"nothing but None is no reason", canceled(nil, nil, nil, nil), false, false, nil},
		{"another error is none of ours", errors.New("reset by peer"), false, false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			failed, certain := failedConditions(tt.err, len(writes))
			if got := isApplied(writes, failed); got != tt.applied || certain != tt.certain {
				t.Errorf("applied, certain = %v, %v, want %v, %v", got, certain, tt.applied, tt.certain)
			}
			if tt.want == nil {
				return
			}
			if diff := cmp.Diff(tt.want, New(nil, TableNames{}).conditionError(writes, failed)); diff != "" {
				t.Errorf("refusal() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyContentionIsRetried(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{canceled(nil, "TransactionConflict"), true},
		{canceled("ProvisionedThroughputExceeded"), true},
		{canceled("ThrottlingError", nil), true},
		{canceled("ValidationError"), false},
		{canceled("ItemCollectionSizeLimitExceeded"), false},
		{&types.TransactionConflictException{}, true},
		{&types.TransactionInProgressException{}, true},
		{&types.ReplicatedWriteConflictException{}, true},
		{&types.ResourceNotFoundException{}, false},
		{&types.IdempotentParameterMismatchException{}, false},
		{errors.New("reset by peer"), false},
	} {
		if got := isContended(tt.err); got != tt.want {
			t.Errorf("contended(%v) = %v, want %v", tt.err, got, tt.want)
		}
	}
}

func TestDamagedItemsAreRefusedByName(t *testing.T) {
	without := func(it item, name string) item { delete(it, name); return it }
	with := func(it item, name string, v types.AttributeValue) item { it[name] = v; return it }
	row, doc := func() item { return rowItem(rowWrite) }, func() item { return docItem(putWrite) }
	for _, tt := range []struct {
		name string
		read func() error
	}{
		{"attribute d", func() error { _, err := parseRow(without(row(), attrData)); return err }},
		{"attribute a", func() error { _, err := parseRow(without(row(), attrWriteID)); return err }},
		{"attribute a", func() error { _, err := parseRow(with(row(), attrWriteID, bytesValue([]byte{1}))); return err }},
		{"attribute sk", func() error { _, err := parseRow(with(row(), attrSK, numberValue("0"))); return err }},
		{"attribute sk", func() error { _, err := parseRow(with(row(), attrSK, numberValue("1.5"))); return err }},
		{"attribute sk", func() error { _, err := parseRow(with(row(), attrSK, stringValue("2"))); return err }},
		{"attribute d", func() error { _, err := parseRow(with(row(), attrData, stringValue("text"))); return err }},
		{"attribute v", func() error { _, err := parseDoc(without(doc(), attrVersion)); return err }},
		{"attribute d", func() error { _, err := parseDoc(without(doc(), attrData)); return err }},
		{"attribute a", func() error { _, err := parseDoc(without(doc(), attrWriteID)); return err }},
		{"attribute n", func() error { _, err := parseDoc(with(doc(), attrNumber, numberValue("1e3"))); return err }},
		{"attribute xs", func() error { _, err := parseDoc(with(doc(), attrIndexPK, stringValue("p"))); return err }},
		{"attribute pk", func() error { _, err := parseDoc(with(doc(), attrPK, uintValue(1))); return err }},
	} {
		e, ok := errors.AsType[*problem.Error](tt.read())
		if !ok || e.Kind != problem.Damaged || e.Field != tt.name {
			t.Errorf("read = %v, want damage of %s", e, tt.name)
		}
	}
}

func TestTokenIsOfEverythingWritten(t *testing.T) {
	seen := map[string]int{}
	index := store.Key{Partition: "i", Sort: "s"}
	for i, writes := range [][]store.Write{
		{rowWrite, putWrite}, {putWrite, rowWrite}, {rowWrite}, {putWrite, delWrite}, {putWrite, addWrite},
		{delWrite, store.Delete{Key: putWrite.Key, IfVersion: 1}},
		{store.Append{Stream: "s", Position: 2, WriteID: others}, putWrite},
		{store.Append{Stream: "s", Position: 3, WriteID: mine}, putWrite},
		{store.Append{Stream: "s", Position: 2, WriteID: mine, Data: []byte("d")}, putWrite},
		{rowWrite, store.Put{Key: putWrite.Key, IfVersion: 2, WriteID: mine}},
		{rowWrite, store.Put{Key: putWrite.Key, IfVersion: 1, WriteID: mine, Number: 1}},
		{rowWrite, store.Put{Key: putWrite.Key, IfVersion: 1, WriteID: mine, Index: index}},
		{rowWrite, store.Put{Key: store.Key{Partition: "pp", Sort: "ut"}, IfVersion: 1, WriteID: mine}},
		{putWrite, store.Add{Key: addWrite.Key, Delta: 1, Max: 6}},
		{putWrite, store.Add{Key: addWrite.Key, Delta: 2, Max: 5}},
		{putWrite, store.Delete{Key: delWrite.Key, IfVersion: 2}},
	} {
		id := requestToken(writes)
		if earlier, twice := seen[id]; twice {
			t.Errorf("commits %d and %d have one token", earlier, i)
		}
		if len(id) > 36 || id != requestToken(writes) {
			t.Errorf("token() = %q, want the same each time, of at most 36 characters", id)
		}
		seen[id] = i
	}
}

func TestLengthsForgetButNeverExaggerate(t *testing.T) {
	l := knownTips{limit: 4}
	name := func(i int) store.Stream { return store.Stream(fmt.Sprint(i)) }
	if !l.isKnown("unknown", 0) || l.isKnown("unknown", 1) {
		t.Error("only position 0 of an unknown stream exists")
	}
	l.record("kept", 7)
	l.record("kept", 3) // a read of what the row is
	for i := range 100 {
		l.record(name(i), 1)
		if !l.isKnown("kept", 7) || l.isKnown("kept", 8) {
			t.Fatalf("after %d other streams: the length of one in use is lost or wrong", i+1)
		}
		if n := len(l.young) + len(l.old); n > 2*l.limit {
			t.Fatalf("%d streams are remembered, at most %d", n, 2*l.limit)
		}
	}
	if l.isKnown(name(0), 1) {
		t.Error("a stream long unused is still remembered")
	}
}
