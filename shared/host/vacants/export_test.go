package vacants

// Remembered is the number of ids in v's cache.
func Remembered(v *Directory) int { return len(v.cache.items) }
