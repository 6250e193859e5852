package standalone

// SetMax sets the size of a day of a journal.
func (j *Journal) SetMax(bytes int64) { j.maxDayBytes = bytes }
