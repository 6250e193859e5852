package dynamo

import (
	"context"
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Walk implements store.Walker. Only operators should call Walk, because it scans the rows table.
// The view is not a snapshot.
func (s *Store) Walk(ctx context.Context, fn func(store.View) error) error {
	if err := s.beginCall(ctx); err != nil {
		return err
	}
	s.endCall()
	return fn(view{s})
}

type view struct{ *Store }

// Rows implements store.View. A page from either end of a stream includes items at invalid
// positions, for example below 1, and reports them as damage.
func (v view) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	condition, values := " AND sk BETWEEN :from AND :last", item{":from": uintValue(from), ":last": uintValue(math.MaxInt64)}
	switch {
	case d == store.Ascending && from <= 1:
		condition = " AND sk <= :last"
		delete(values, ":from")
	case d == store.Descending && from >= math.MaxInt64:
		condition, values = "", nil
	case d == store.Descending:
		return v.Store.Rows(ctx, s, from, n, d)
	}
	return v.queryPage(ctx, s, from, n, d, condition, values)
}

// A larger scanLimit would read more rows of a long stream to find one name.
const scanLimit = 128

// largestNumber is DynamoDB's largest number. It sorts after every row of a stream.
const largestNumber = "9.9999999999999999999999999999999999999E+125"

// Streams implements store.View. A scan returns the rows of a stream together. The next page skips
// the remaining rows of the last stream.
func (v view) Streams(ctx context.Context, prefix store.Stream, n int, cursor string) (names []store.Stream, next string, err error) {
	if err := store.CheckPage(n); err != nil {
		return nil, "", err
	}
	last, err := store.ParseStreamCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	if err := v.beginCall(ctx); err != nil {
		return nil, "", err
	}
	defer v.endCall()
	in := &dynamodb.ScanInput{
		TableName:            &v.tables.Rows,
		ConsistentRead:       aws.Bool(true),
		ProjectionExpression: aws.String(attrPK),
		Limit:                aws.Int32(scanLimit),
	}
	if last != "" {
		in.ExclusiveStartKey = item{attrPK: bytesValue([]byte(last)), attrSK: numberValue(largestNumber)}
	}
	if prefix != "" {
		in.FilterExpression = aws.String("begins_with(pk, :prefix)")
		in.ExpressionAttributeValues = item{":prefix": bytesValue([]byte(prefix))}
	}
	out, err := v.client.Scan(ctx, in)
	if err != nil {
		return nil, "", unavailableError(ctx, "listing streams", err)
	}
	for _, it := range out.Items {
		name, err := parseStream(it)
		switch {
		case err != nil:
			return nil, "", err
		case name == last:
		case len(names) == n:
			return names, store.StreamCursor(last), nil
		default:
			names, last = append(names, name), name
		}
	}
	if out.LastEvaluatedKey == nil {
		return names, "", nil
	}
	if last, err = parseStream(out.LastEvaluatedKey); err != nil {
		return nil, "", err
	}
	return names, store.StreamCursor(last), nil
}

func parseStream(it item) (store.Stream, error) {
	pk, ok := it[attrPK].(*types.AttributeValueMemberB)
	if !ok || len(pk.Value) == 0 {
		return "", &problem.Error{Kind: problem.Damaged, Field: "attribute " + attrPK, Want: "bytes"}
	}
	return store.Stream(pk.Value), nil
}
