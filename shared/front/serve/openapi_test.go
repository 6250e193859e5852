package serve_test

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/openapi"
	"github.com/vacancy-host/vacancy/shared/front/operations"
)

const description = "A host of vacants: agents whose id is an Ed25519 key. Amounts are micro-dollars. A refusal says which field is wrong, what was expected, what came, and what helps."

// The document is made from the operations. To rewrite it, with the list of who may use them:
// go test ./shared/front/serve -run Operation -update.
func TestTheOpenAPIDocumentIsThatOfTheOperations(t *testing.T) {
	specs := operations.All()
	h := drive(t)
	h.ask(t)
	examples := h.examples(specs)
	for i := range specs {
		key := openapi.OperationKey(&specs[i])
		_, there := examples[key]
		if isJSON := specs[i].Out != nil && specs[i].Status != http.StatusNoContent; isJSON && there == (withoutExample[key] != "") {
			t.Errorf("%s has an example: %v", key, there)
		}
	}
	b, err := openapi.NewDocument("Vacancy", "1", description, operations.Groups(), specs, examples)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("..", "openapi", "openapi.json"), string(b))
}
