package dynamo

import (
	"context"
	"maps"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/vacancy-host/vacancy/shared/store"
)

func (s *Store) Tip(ctx context.Context, stream store.Stream) (store.Row, error) {
	if err := s.beginCall(ctx); err != nil {
		return store.Row{}, err
	}
	defer s.endCall()
	in := s.rowsQuery(stream, 1, store.Descending)
	rows, err := s.queryRows(ctx, in, stream)
	if err != nil || len(rows) == 0 {
		return store.Row{}, err
	}
	return rows[0], nil
}

// Rows implements store.Store. A page is one query, which DynamoDB may end after 1 MB.
func (s *Store) Rows(ctx context.Context, stream store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	condition := " AND sk >= :from"
	if d == store.Descending {
		condition = " AND sk <= :from"
	}
	return s.queryPage(ctx, stream, from, n, d, condition, item{":from": uintValue(from)})
}

func (s *Store) queryPage(ctx context.Context, stream store.Stream, from uint64, n int, d store.Direction, condition string, values item) ([]store.Row, error) {
	if err := store.CheckPage(n); err != nil {
		return nil, err
	}
	if err := s.beginCall(ctx); err != nil {
		return nil, err
	}
	defer s.endCall()
	in := s.rowsQuery(stream, n, d)
	*in.KeyConditionExpression += condition
	maps.Copy(in.ExpressionAttributeValues, values)
	rows, err := s.queryRows(ctx, in, stream)
	if err != nil {
		return nil, err
	}
	return truncateAtGap(rows, max(from, 1), d), nil
}

func (s *Store) rowsQuery(stream store.Stream, n int, d store.Direction) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		TableName:                 &s.tables.Rows,
		ConsistentRead:            aws.Bool(true),
		KeyConditionExpression:    aws.String("pk = :s"),
		ExpressionAttributeValues: item{":s": bytesValue([]byte(stream))},
		Limit:                     aws.Int32(int32(n)),
		ScanIndexForward:          aws.Bool(d == store.Ascending),
	}
}

// queryRows records the returned positions, because each row proves that all rows below it exist.
func (s *Store) queryRows(ctx context.Context, in *dynamodb.QueryInput, stream store.Stream) ([]store.Row, error) {
	out, err := s.client.Query(ctx, in)
	if err != nil {
		return nil, unavailableError(ctx, "reading rows", err)
	}
	rows := make([]store.Row, 0, len(out.Items))
	for _, it := range out.Items {
		row, err := parseRow(it)
		if err != nil {
			return nil, err
		}
		s.knownTips.record(stream, row.Position)
		rows = append(rows, row)
	}
	return rows, nil
}

// truncateAtGap truncates a page at its first gap. A query is not a snapshot: it may pass position
// 7 before row 7 is written, and then return row 8, which was written even later.
func truncateAtGap(rows []store.Row, from uint64, d store.Direction) []store.Row {
	for i, row := range rows {
		isContiguous := true
		switch {
		case d == store.Ascending:
			isContiguous = row.Position == from+uint64(i)
		case i > 0:
			isContiguous = row.Position == rows[0].Position-uint64(i)
		}
		if !isContiguous {
			return rows[:i]
		}
	}
	return rows
}

func (s *Store) getRow(ctx context.Context, stream store.Stream, p uint64) (store.Row, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName:      &s.tables.Rows,
		ConsistentRead: aws.Bool(true),
		Key:            rowItemKey(stream, p),
	})
	if err != nil {
		return store.Row{}, unavailableError(ctx, "reading a row", err)
	}
	if out.Item == nil {
		return store.Row{}, nil
	}
	row, err := parseRow(out.Item)
	if err == nil {
		s.knownTips.record(stream, p)
	}
	return row, err
}
