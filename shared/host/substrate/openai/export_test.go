package openai

import (
	"encoding/json"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
)

// Body is the body of a request to the server of spec.
func Body(spec substrate.Spec, r *substrate.Request) []byte {
	_, name, _ := spec.Model()
	b, err := json.Marshal((&model{spec: spec, name: name}).buildBody(r))
	if err != nil {
		panic(err)
	}
	return b
}
