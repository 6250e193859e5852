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

// Walk implements store.Walker, for operators only: no function that answers
// callers may Scan. It is not a snapshot: names, rows and documents are read as
// they are. A stream without its first row is listed too, because a walk should
// find it.
func (s *Store) Walk(ctx context.Context, fn func(store.View) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	s.leave()
	return fn(view{s})
}

type view struct{ *Store }

// Rows implements store.View. A page from the start, or down from the end, also
// finds items at invalid positions, put there by hand, as damage; a host itself
// reads past them if it can.
func (v view) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	condition, values := " AND sk BETWEEN :from AND :last", item{":from": num(from), ":last": num(math.MaxInt64)}
	switch {
	case d == store.Ascending && from <= 1:
		condition = " AND sk <= :last"
		delete(values, ":from")
	case d == store.Descending && from >= math.MaxInt64:
		condition, values = "", nil
	case d == store.Descending:
		return v.Store.Rows(ctx, s, from, n, d)
	}
	return v.page(ctx, s, from, n, d, condition, values)
}

// scanned is the number of rows that one request reads. A larger number would
// read far into a long stream only for its name.
const scanned = 128

// beyond is DynamoDB's largest number, after every row of a stream.
const beyond = "9.9999999999999999999999999999999999999E+125"

// Streams implements store.View, in the table's order: hashed keys, with the
// rows of one stream together. Each page starts after the last possible row of
// the last stream, so only the rest of one page is read of a long stream, and
// the cursor is a name.
func (v view) Streams(ctx context.Context, prefix store.Stream, n int, cursor string) (names []store.Stream, next string, err error) {
	if err := store.CheckPage(n); err != nil {
		return nil, "", err
	}
	last, err := store.ParseStreamCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	if err := v.enter(ctx); err != nil {
		return nil, "", err
	}
	defer v.leave()
	in := &dynamodb.ScanInput{
		TableName:            &v.tables.Rows,
		ConsistentRead:       aws.Bool(true),
		ProjectionExpression: aws.String(attrPK),
		Limit:                aws.Int32(scanned),
	}
	if last != "" {
		in.ExclusiveStartKey = item{attrPK: bin([]byte(last)), attrSK: numText(beyond)}
	}
	if prefix != "" {
		in.FilterExpression = aws.String("begins_with(pk, :prefix)")
		in.ExpressionAttributeValues = item{":prefix": bin([]byte(prefix))}
	}
	out, err := v.client.Scan(ctx, in)
	if err != nil {
		return nil, "", unavailable(ctx, "listing streams", err)
	}
	for _, it := range out.Items {
		name, err := streamOf(it)
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
	if last, err = streamOf(out.LastEvaluatedKey); err != nil {
		return nil, "", err
	}
	return names, store.StreamCursor(last), nil
}

// streamOf reads the stream's name in an item or a key.
func streamOf(it item) (store.Stream, error) {
	pk, ok := it[attrPK].(*types.AttributeValueMemberB)
	if !ok || len(pk.Value) == 0 {
		return "", &problem.Error{Kind: problem.Damaged, Field: "attribute " + attrPK, Want: "bytes"}
	}
	return store.Stream(pk.Value), nil
}
