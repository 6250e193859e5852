package store

import "context"

// Feed lists the rows of a store in the order in which they were appended. A store has one
// partition or several; each has its own order, and all rows of a stream are in one
// partition or in its children.
type Feed interface {
	// Partitions returns the partitions, parents before their children. A partition that
	// ended long ago may be missing.
	Partitions(ctx context.Context) ([]Partition, error)
	// After returns up to n rows (1 to MaxPage) of a partition after an offset, "" for its
	// beginning, and the offset after them. Without rows, next equals offset. ended
	// reports that the partition will never have rows after them. The error is ErrTrimmed
	// if rows after the offset are gone.
	After(ctx context.Context, partition, offset string, n int) (rows []FeedRow, next string, ended bool, err error)
}

// Partition is a part of a Feed.
type Partition struct {
	ID     string
	Parent string // its rows come before; "" if unknown
}

// FeedRow is a row with its stream.
type FeedRow struct {
	Stream Stream
	Row
}
