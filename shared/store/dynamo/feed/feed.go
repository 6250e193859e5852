// Package feed implements store.Feed on the DynamoDB stream of a rows table. Its partitions are the
// stream's shards, and its offsets are their sequence numbers. A stream retains records for 24
// hours, and its shards close after some hours.
package feed

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
)

// Feed lists the rows of a stream. It is safe for concurrent use.
type Feed struct {
	client *dynamodbstreams.Client
	arn    string

	mu        sync.Mutex
	positions map[string]pagePosition
}

// pagePosition is the position of the next page of a partition. After a page without new rows,
// RowsAfter advances the iterator but not the offset.
type pagePosition struct{ offset, iterator string }

var _ store.Feed = (*Feed)(nil)

// New returns a Feed of the stream with the given ARN. Its role needs DescribeStream,
// GetShardIterator and GetRecords.
func New(client *dynamodbstreams.Client, arn string) *Feed {
	return &Feed{client: client, arn: arn, positions: map[string]pagePosition{}}
}

const requestTimeout = 10 * time.Second

func NewClient(cfg aws.Config, opts ...func(*dynamodbstreams.Options)) *dynamodbstreams.Client {
	settings := func(o *dynamodbstreams.Options) {
		o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(requestTimeout)
	}
	return dynamodbstreams.NewFromConfig(cfg, append([]func(*dynamodbstreams.Options){settings}, opts...)...)
}

func (f *Feed) Partitions(ctx context.Context) ([]store.Partition, error) {
	var partitions []store.Partition
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &f.arn}
	for {
		out, err := f.client.DescribeStream(ctx, in)
		if err != nil {
			return nil, wrapError(ctx, "listing the shards of the stream", err)
		}
		for _, s := range out.StreamDescription.Shards {
			partitions = append(partitions, store.Partition{ID: aws.ToString(s.ShardId), Parent: aws.ToString(s.ParentShardId)})
		}
		if in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId; in.ExclusiveStartShardId == nil {
			return sortParentsFirst(partitions), nil
		}
	}
}

func sortParentsFirst(partitions []store.Partition) []store.Partition {
	parents := make(map[string]string, len(partitions))
	for _, p := range partitions {
		parents[p.ID] = p.Parent
	}
	sorted, visited := make([]store.Partition, 0, len(partitions)), map[string]bool{}
	var visit func(id string)
	visit = func(id string) {
		parent, isListed := parents[id]
		if !isListed || visited[id] {
			return
		}
		visited[id] = true
		visit(parent)
		sorted = append(sorted, store.Partition{ID: id, Parent: parent})
	}
	for _, p := range partitions {
		visit(p.ID)
	}
	return sorted
}

// maxEmptyPages limits the consecutive empty pages that RowsAfter reads. DynamoDB returns empty
// pages both at the end of an open shard and before further records.
const maxEmptyPages = 5

// RowsAfter implements store.Feed. It ignores modified and removed rows, which the tamper detector
// reports.
func (f *Feed) RowsAfter(ctx context.Context, partition, offset string, n int) (rows []store.FeedRow, next string, ended bool, err error) {
	if err := store.CheckPage(n); err != nil {
		return nil, "", false, err
	}
	if strings.Trim(offset, "0123456789") != "" || len(offset) > 40 {
		return nil, "", false, problem.Invalid("offset", "a sequence number", strconv.Quote(offset[:min(len(offset), 80)]))
	}
	iterator, isCached, err := f.iteratorAfter(ctx, partition, offset)
	if err != nil {
		return nil, "", false, err
	}
	for emptyPages := 0; emptyPages < maxEmptyPages; emptyPages++ {
		out, err := f.client.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: &iterator, Limit: aws.Int32(int32(n))})
		if isExpired(err) && isCached {
			isCached = false
			if iterator, err = f.newIterator(ctx, partition, offset); err == nil {
				continue
			}
		}
		if err != nil {
			f.dropPosition(partition)
			return nil, "", false, wrapError(ctx, "reading the stream", err)
		}
		for _, r := range out.Records {
			next = aws.ToString(r.Dynamodb.SequenceNumber)
			if row, ok := parseInsertedRow(&r); ok {
				rows = append(rows, row)
			}
		}
		if len(rows) == 0 {
			next = offset // even if the page has other records
		}
		iterator = aws.ToString(out.NextShardIterator)
		f.cachePosition(partition, next, iterator)
		switch {
		case len(rows) > 0 || iterator == "":
			return rows, next, iterator == "", nil
		case len(out.Records) > 0:
			emptyPages = -1
		}
	}
	return nil, offset, false, nil
}

// iteratorAfter returns an iterator for the page after an offset. A cached iterator may have
// expired.
func (f *Feed) iteratorAfter(ctx context.Context, partition, offset string) (iterator string, isCached bool, err error) {
	f.mu.Lock()
	cached := f.positions[partition]
	f.mu.Unlock()
	if cached.iterator != "" && cached.offset == offset {
		return cached.iterator, true, nil
	}
	iterator, err = f.newIterator(ctx, partition, offset)
	return iterator, false, err
}

func (f *Feed) newIterator(ctx context.Context, partition, offset string) (string, error) {
	in := &dynamodbstreams.GetShardIteratorInput{StreamArn: &f.arn, ShardId: &partition, ShardIteratorType: types.ShardIteratorTypeTrimHorizon}
	if offset != "" {
		in.ShardIteratorType, in.SequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, &offset
	}
	out, err := f.client.GetShardIterator(ctx, in)
	if err != nil {
		return "", wrapError(ctx, "finding a position in the stream", err)
	}
	return aws.ToString(out.ShardIterator), nil
}

func (f *Feed) cachePosition(partition, offset, iterator string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.positions[partition] = pagePosition{offset, iterator}
}

func (f *Feed) dropPosition(partition string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.positions, partition)
}

func isExpired(err error) bool {
	_, ok := errors.AsType[*types.ExpiredIteratorException](err)
	return ok
}

func wrapError(ctx context.Context, operation string, err error) error {
	if _, ok := errors.AsType[*types.TrimmedDataAccessException](err); ok {
		return fmt.Errorf("%w: %s", store.ErrTrimmed, operation)
	}
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); ok {
		return problem.Wrap(problem.NotFound, err, "%s: the stream or its shard does not exist", operation)
	}
	if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) {
		err = fmt.Errorf("%w: %w", ctxErr, err)
	}
	return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, operation, err)
}

func parseInsertedRow(r *types.Record) (row store.FeedRow, ok bool) {
	if r.EventName != types.OperationTypeInsert {
		return row, false
	}
	item := make(map[string]ddb.AttributeValue, len(r.Dynamodb.NewImage))
	for name, value := range r.Dynamodb.NewImage {
		switch v := value.(type) {
		case *types.AttributeValueMemberB:
			item[name] = &ddb.AttributeValueMemberB{Value: v.Value}
		case *types.AttributeValueMemberN:
			item[name] = &ddb.AttributeValueMemberN{Value: v.Value}
		}
	}
	stream, streamRow, err := dynamo.ParseStreamRow(item)
	return store.FeedRow{Stream: stream, Row: streamRow}, err == nil
}
