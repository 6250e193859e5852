package translog

// SetBatch makes one checkpoint seal at most n leaves.
func (l *Log) SetBatch(n uint64) { l.batch = n }

// ForgedNote is a checkpoint's note signed with another key than Seal's.
var ForgedNote = Checkpoint.sign
