package dynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/vacancy-host/vacancy/shared/store"
)

func (s *Store) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	if err := s.beginCall(ctx); err != nil {
		return store.Doc{}, err
	}
	defer s.leave()
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName:      &s.tables.Docs,
		ConsistentRead: aws.Bool(true),
		Key:            docItemKey(k),
	})
	if err != nil {
		return store.Doc{}, unavailable(ctx, "reading a document", err)
	}
	if out.Item == nil {
		return store.Doc{Key: k}, nil
	}
	return readDoc(out.Item)
}

// Docs implements store.Store. The sparse index lags slightly, because DynamoDB does not offer
// consistent reads of it. A page is one query for n+1 documents; the additional one shows whether
// there is a next page.
func (s *Store) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	if err := store.CheckRange(r, n); err != nil {
		return nil, "", err
	}
	after, err := store.ParseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	if err := s.beginCall(ctx); err != nil {
		return nil, "", err
	}
	defer s.leave()
	in, empty := s.docsQuery(r, after)
	if empty {
		return nil, "", nil
	}
	in.Limit = aws.Int32(int32(n + 1))
	out, err := s.client.Query(ctx, in)
	if err != nil {
		return nil, "", unavailable(ctx, "reading documents", err)
	}
	docs := make([]store.Doc, 0, len(out.Items))
	for _, it := range out.Items {
		doc, err := readDoc(it)
		if err != nil {
			return nil, "", err
		}
		if r.Last != "" && sortIn(r, doc) >= r.Last {
			return docs, "", nil
		}
		if len(docs) == n {
			return docs, cursorAfter(docs), nil
		}
		docs = append(docs, doc)
	}
	if out.LastEvaluatedKey == nil || len(docs) == 0 {
		return docs, "", nil
	}
	return docs, cursorAfter(docs), nil // the page ended at 1 MB
}

func sortIn(r store.Range, d store.Doc) string {
	if r.Index {
		return d.Index.Sort
	}
	return d.Key.Sort
}

func cursorAfter(docs []store.Doc) string {
	last := docs[len(docs)-1]
	return store.Cursor{Sort: last.Index.Sort, Key: last.Key}.String()
}

// docsQuery returns the query for a range after a position, or reports that the range is empty. A
// key condition allows only one comparison of the sort key, and BETWEEN includes its upper bound,
// so Docs drops a document at r.Last.
func (s *Store) docsQuery(r store.Range, after store.Cursor) (in *dynamodb.QueryInput, empty bool) {
	pk, sk, place := attrPK, attrSK, after.Key.Sort
	start := docItemKey(store.Key{Partition: r.Partition, Sort: after.Key.Sort})
	in = &dynamodb.QueryInput{TableName: &s.tables.Docs, ConsistentRead: aws.Bool(true)}
	if r.Index {
		pk, sk, place = attrIndexPK, attrIndexSK, after.Sort
		start = docItemKey(after.Key)
		start[pk], start[sk] = str(r.Partition), str(after.Sort)
		in.IndexName, in.ConsistentRead = aws.String(docsIndex), nil
	}
	condition := pk + " = :p"
	values := item{":p": str(r.Partition)}
	if r.First != "" {
		values[":first"] = str(r.First)
	}
	if r.Last != "" {
		values[":last"] = str(r.Last)
	}
	switch {
	case r.Last != "" && (r.First >= r.Last || place >= r.Last):
		return nil, true
	case r.First != "" && r.Last != "":
		condition += " AND " + sk + " BETWEEN :first AND :last"
	case r.First != "":
		condition += " AND " + sk + " >= :first"
	case r.Last != "":
		condition += " AND " + sk + " < :last"
	}
	in.KeyConditionExpression, in.ExpressionAttributeValues = &condition, values
	// DynamoDB rejects a start key outside the range.
	if place != "" && place >= r.First {
		in.ExclusiveStartKey = start
	}
	return in, false
}
