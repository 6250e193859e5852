package stage

// StackNames lists the short names of a stage's stacks in deployment order.
func StackNames() []string { return []string{"data", "watch", "functions", "edge"} }

// Gate is the short name of the state machine of a stage's gate, and of its log group.
const Gate = "gate"

func FullName(stage, shortName string) string { return "vacancy-" + stage + "-" + shortName }
