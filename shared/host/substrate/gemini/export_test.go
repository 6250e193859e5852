package gemini

import (
	"encoding/json"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
)

// Thinking is what an effort is for a model, in JSON.
func Thinking(model string, e substrate.Effort) string {
	b, err := json.Marshal(thinking(model, e))
	if err != nil {
		panic(err)
	}
	return string(b)
}
