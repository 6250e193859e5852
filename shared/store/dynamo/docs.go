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
	defer s.endCall()
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName:      &s.tables.Docs,
		ConsistentRead: aws.Bool(true),
		Key:            docItemKey(k),
	})
	if err != nil {
		return store.Doc{}, unavailableError(ctx, "reading a document", err)
	}
	if out.Item == nil {
		return store.Doc{Key: k}, nil
	}
	return parseDoc(out.Item)
}

// Docs implements store.Store. Reads of the sparse index lag slightly. The query asks for n+1
// documents, because the additional document shows whether there is a next page.
func (s *Store) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	if err := store.CheckRange(r, n); err != nil {
		return nil, "", err
	}
	position, err := store.ParseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	if err := s.beginCall(ctx); err != nil {
		return nil, "", err
	}
	defer s.endCall()
	in, isEmpty := s.docsQuery(r, position)
	if isEmpty {
		return nil, "", nil
	}
	in.Limit = aws.Int32(int32(n + 1))
	out, err := s.client.Query(ctx, in)
	if err != nil {
		return nil, "", unavailableError(ctx, "reading documents", err)
	}
	docs := make([]store.Doc, 0, len(out.Items))
	for _, it := range out.Items {
		doc, err := parseDoc(it)
		if err != nil {
			return nil, "", err
		}
		if r.End != "" && sortValue(r, doc) >= r.End {
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

func sortValue(r store.Range, d store.Doc) string {
	if r.Index {
		return d.Index.Sort
	}
	return d.Key.Sort
}

func cursorAfter(docs []store.Doc) string {
	last := docs[len(docs)-1]
	return store.Cursor{IndexSort: last.Index.Sort, Key: last.Key}.String()
}

// docsQuery returns the query for a range after a position. A condition with two bounds must use
// BETWEEN, which includes the upper bound, so Docs drops a document at r.End.
func (s *Store) docsQuery(r store.Range, position store.Cursor) (in *dynamodb.QueryInput, isEmpty bool) {
	pk, sk, lastSort := attrPK, attrSK, position.Key.Sort
	start := docItemKey(store.Key{Partition: r.Partition, Sort: position.Key.Sort})
	in = &dynamodb.QueryInput{TableName: &s.tables.Docs, ConsistentRead: aws.Bool(true)}
	if r.Index {
		pk, sk, lastSort = attrIndexPK, attrIndexSK, position.IndexSort
		start = docItemKey(position.Key)
		start[pk], start[sk] = stringValue(r.Partition), stringValue(position.IndexSort)
		in.IndexName, in.ConsistentRead = aws.String(docsIndex), nil
	}
	condition := pk + " = :p"
	values := item{":p": stringValue(r.Partition)}
	if r.Start != "" {
		values[":first"] = stringValue(r.Start)
	}
	if r.End != "" {
		values[":last"] = stringValue(r.End)
	}
	switch {
	case r.End != "" && (r.Start >= r.End || lastSort >= r.End):
		return nil, true
	case r.Start != "" && r.End != "":
		condition += " AND " + sk + " BETWEEN :first AND :last"
	case r.Start != "":
		condition += " AND " + sk + " >= :first"
	case r.End != "":
		condition += " AND " + sk + " < :last"
	}
	in.KeyConditionExpression, in.ExpressionAttributeValues = &condition, values
	// DynamoDB rejects a start key outside the range.
	if lastSort != "" && lastSort >= r.Start {
		in.ExclusiveStartKey = start
	}
	return in, false
}
