package stage

// Stacks are the short names of a stage's stacks, in the order of their
// deployment: none is needed by one before it.
func Stacks() []string { return []string{"data", "watch", "functions", "edge"} }

// Functions are the short names of a stage's functions.
func Functions() []string {
	return []string{"message", "admin", "export", "registry", "search", "graduate", "sweeper", "tamper", "indexer", "checkpointer",
		"consent", "ratelimit", "collusion", "commit", "record"}
}

// Gate is the short name of a stage's state machine, and of its log.
const Gate = "gate"

// Whole is what a stack or a function of a stage is called in an account.
func Whole(stage, short string) string { return "vacancy-" + stage + "-" + short }

// Chosen are the names of the context values that a person may give for a
// stage, sorted. The rest of those that the stacks know a deployment sets.
func Chosen() []string {
	return []string{"arch", "budget", "certificate", "concurrency", "dashboard", "domain", "edge", "email", "hostKey", "indexSeconds", "keep", "pairRate", "rate", "readCeiling", "retentionDays", "waf", "writeCeiling"}
}

// Set are the names of the context values that a deployment itself sets.
func Set() []string { return []string{"edgeSecretBefore", "edgeSecretVersion", "stage"} }
