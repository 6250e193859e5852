package stage

// Stacks lists the short names of a stage's stacks in deployment order.
func Stacks() []string { return []string{"data", "watch", "functions", "edge"} }

// Gate is the short name of a stage's state machine and of its log group.
const Gate = "gate"

// Whole returns the name of a stack or function in the account.
func Whole(stage, short string) string { return "vacancy-" + stage + "-" + short }

// Chosen lists the context values that an operator may set for a stage, sorted.
func Chosen() []string {
	return []string{"agpKeyPrefix", "arch", "bedrockModels", "bookingPrice", "budget", "certificate", "dashboard", "domain", "edge", "email", "fee", "hostKey", "indexSeconds", "keep", "keyPrefix", "limits", "mock", "modelBudget",
		"pairRate", "rate", "reserve", "retentionDays", "tenantFunctions", "waf", "worstDay"}
}

// Set lists the context values that only a deployment sets.
func Set() []string { return []string{"edgeSecretBefore", "edgeSecretVersion", "stage"} }
