package vacants

// Remembered is the number of ids in v's cache.
func Remembered(v *Directory) int { return len(v.memory.items) }

// NextSpelling returns the first spelling of a name that sorts after a text.
var NextSpelling = nextSpelling
