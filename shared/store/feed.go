package store

import "context"

// Feed lists the rows of each partition in the order in which they were appended. All rows of a
// stream are in one partition and its children.
type Feed interface {
	// Partitions returns parents before their children. A partition that ended long ago may be
	// missing.
	Partitions(ctx context.Context) ([]Partition, error)
	// RowsAfter returns up to n rows after an offset, and the next offset. The offset "" is the
	// beginning. If ended is true, no more rows will follow. If rows after the offset were dropped,
	// the error is ErrTrimmed.
	RowsAfter(ctx context.Context, partition, offset string, n int) (rows []FeedRow, next string, ended bool, err error)
}

type Partition struct {
	ID     string
	Parent string // partition with the earlier rows; "" if unknown
}

type FeedRow struct {
	Stream Stream
	Row
}
