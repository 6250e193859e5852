package store

import "context"

// Feed lists the rows of a store in the order in which they were appended. A store has one or more
// partitions, each with its own order. All rows of a stream are in one partition and its children.
type Feed interface {
	// Partitions returns the partitions, parents before their children. A partition that ended long
	// ago may be missing.
	Partitions(ctx context.Context) ([]Partition, error)
	// RowsAfter returns up to n rows (1 to MaxPage) of a partition after an offset, and the offset
	// after the last one. The offset "" is the beginning of the partition. If there are no rows,
	// next equals offset. If ended is true, no more rows will follow. If rows after the offset were
	// dropped, the error is ErrTrimmed.
	RowsAfter(ctx context.Context, partition, offset string, n int) (rows []FeedRow, next string, ended bool, err error)
}

// Partition is a part of a Feed.
type Partition struct {
	ID     string
	Parent string // partition with the earlier rows; "" if unknown
}

type FeedRow struct {
	Stream Stream
	Row
}
