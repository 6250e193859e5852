package gemini

import (
	"encoding/json"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
)

// Thinking returns a model's setting for an effort, in JSON.
func Thinking(model string, e substrate.Effort) string {
	b, err := json.Marshal(newThinkingConfig(model, e))
	if err != nil {
		panic(err)
	}
	return string(b)
}
