package vacants

// Remembered is how many ids v's directory remembers.
func Remembered(v *Directory) int { return len(v.memory.items) }
