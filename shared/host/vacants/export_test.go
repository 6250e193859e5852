package vacants

// Remembered is how many ids v's directory remembers.
func Remembered(v *Vacants) int { return len(v.memory.items) }
