package callstats

// Remembers returns the numbers of vacants and callers in o's memory.
func (o *Observer) Remembers() (vacants, callers int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.vacants), len(o.parents)
}
