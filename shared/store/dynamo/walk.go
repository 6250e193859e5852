package dynamo

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Walk is as store.Walker says, for operators only: it reads the whole table
// of rows to learn the names of its streams and keeps them in memory, about
// 100 bytes each, and no function's role may Scan. The names are those at the
// start; rows and documents are as they are when read. A stream without its
// first row is listed too: finding that is what a walk is for.
func (s *Store) Walk(ctx context.Context, fn func(store.View) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	names, err := s.streams(ctx)
	if err != nil {
		return err
	}
	return fn(&view{Store: s, names: names})
}

// streams scans the names, in byte order. A scan comes in the order of hashed
// keys, the rows of one stream together.
func (s *Store) streams(ctx context.Context) ([]store.Stream, error) {
	var names []store.Stream
	pages := dynamodb.NewScanPaginator(s.client, &dynamodb.ScanInput{
		TableName:            &s.tables.Rows,
		ConsistentRead:       aws.Bool(true),
		ProjectionExpression: aws.String(attrPK),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, unavailable(ctx, "listing streams", err)
		}
		for _, it := range page.Items {
			pk, ok := it[attrPK].(*types.AttributeValueMemberB)
			if !ok {
				return nil, &problem.Error{Kind: problem.Damaged, Field: "attribute " + attrPK, Want: "bytes"}
			}
			if n := len(names); n == 0 || string(names[n-1]) != string(pk.Value) {
				names = append(names, store.Stream(pk.Value))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// view is the store and the names that it had.
type view struct {
	*Store
	names []store.Stream
}

// Streams is as store.View says.
func (v *view) Streams(ctx context.Context, after store.Stream, n int) ([]store.Stream, error) {
	if err := store.CheckPage(n); err != nil {
		return nil, err
	}
	if err := v.enter(ctx); err != nil {
		return nil, err
	}
	defer v.leave()
	i, found := slices.BinarySearch(v.names, after)
	if found {
		i++
	}
	return slices.Clone(v.names[i:min(i+n, len(v.names))]), nil
}
