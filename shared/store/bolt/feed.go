package bolt

import (
	"context"
	"strconv"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

const journalPartitionID = "journal"

func (s *Store) Partitions(context.Context) ([]store.Partition, error) {
	return []store.Partition{{ID: journalPartitionID}}, nil
}

// RowsAfter implements store.Feed. An offset is a record number.
func (s *Store) RowsAfter(ctx context.Context, partition, offset string, n int) (rows []store.FeedRow, next string, ended bool, err error) {
	if err := store.CheckPage(n); err != nil {
		return nil, "", false, err
	}
	if partition != journalPartitionID {
		return nil, "", false, problem.New(problem.NotFound, "the feed has no partition %.80q", partition)
	}
	var last uint64
	if offset != "" {
		if last, err = strconv.ParseUint(offset, 10, 63); err != nil {
			return nil, "", false, problem.Invalid("offset", "a record number", strconv.Quote(offset[:min(len(offset), 80)]))
		}
	}
	err = s.runReadTx(ctx, func(tx *bbolt.Tx) error {
		names := map[uint64]store.Stream{}
		c := tx.Bucket(journalBucket).Cursor()
		size := 0
		for k, v := c.Seek(encodeNumber(last + 1)); k != nil && len(rows) < n && size < pageBytes; k, v = c.Next() {
			if len(v) < recordHeaderSize {
				return damagedError("record %x is truncated", k)
			}
			streamNumber := parseNumber(v[17:25])
			name, isCached := names[streamNumber]
			if !isCached {
				if name, err = streamName(tx, streamNumber); err != nil {
					return err
				}
				names[streamNumber] = name
			}
			row, err := parseRecord(v, streamNumber, parseNumber(v[25:33]))
			if err != nil {
				return err
			}
			rows = append(rows, store.FeedRow{Stream: name, Row: store.CloneRow(row)})
			size += len(row.Data)
			last = parseNumber(k)
		}
		return nil
	})
	if err != nil {
		return nil, "", false, err
	}
	if len(rows) == 0 {
		return nil, offset, false, nil
	}
	return rows, strconv.FormatUint(last, 10), false, nil
}

func streamName(tx *bbolt.Tx, n uint64) (store.Stream, error) {
	name := tx.Bucket(nameByNumberBucket).Get(encodeNumber(n))
	if name == nil {
		return "", damagedError("stream %d has no name", n)
	}
	return store.Stream(name), nil
}
