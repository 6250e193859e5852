package translog

// SetBatch limits a checkpoint to n leaves.
func (l *Log) SetBatch(n uint64) { l.maxBatch = n }

// ForgedNote returns a checkpoint's note that is signed with another key.
var ForgedNote = Checkpoint.sign
