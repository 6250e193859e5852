package call

// Remembered is of how many callers h remembers whether their keys are good.
func Remembered(h *Host) int { return len(h.revocations.m) }
