package callstats

// Remembers is how many vacants and callers o has in memory.
func (o *Observer) Remembers() (vacants, callers int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.vacants), len(o.callers)
}
