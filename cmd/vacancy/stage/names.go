package stage

// Stacks are the short names of a stage's stacks, in the order of their
// deployment: none is needed by one before it.
func Stacks() []string { return []string{"data", "watch", "functions", "edge"} }

// Functions are the short names of a stage's functions.
func Functions() []string { return []string{"message", "account", "audit", "sweeper", "sentinel"} }

// Whole is what a stack or a function of a stage is called in an account.
func Whole(stage, short string) string { return "vacancy-" + stage + "-" + short }
