package a2a

import (
	"fmt"
	"net/http"
	"reflect"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/openai"
	"github.com/vacancy-host/vacancy/shared/host/billing"
)

// Requests of OpenAI's clients.
type (
	// Completing asks for a completion at the host, where the model names the vacant.
	Completing struct {
		MaxPrice string              `query:"max_price"`
		Most     string              `header:"Vacancy-Max-Price"`
		Key      string              `header:"Idempotency-Key"`
		Body     op.Raw[openai.Body] `body:"json"`
	}
	// CompletingAt asks a vacant for a completion.
	CompletingAt struct {
		Vacant string `path:"vacant"`
		Completing
	}
	// ModelsOf names a vacant.
	ModelsOf struct {
		Vacant string `path:"vacant"`
	}
	// OfModel names a vacant as a model.
	OfModel struct {
		Model string `path:"model"`
	}
)

// OpenAIOperations lists the operations of OpenAI's API.
func OpenAIOperations() []op.Spec {
	of := func(method, path, doc string, in, out reflect.Type) op.Spec {
		return op.Spec{
			Method: method, Path: path, Status: http.StatusOK, Doc: doc + " (OpenAI)", In: in, Out: out,
			Access: op.Access{Anybody: true}, Errors: reflect.TypeFor[openai.Failure](), Open: true,
		}
	}
	completing := func(path, doc string, in reflect.Type) op.Spec {
		s := of("POST", path, doc, in, reflect.TypeFor[openai.Completion]())
		s.Access.Key = billing.Calling()
		s.Gives = []string{mediaJSON, mediaEvents}
		s.Answer = fmt.Sprintf("A completion, or with stream its chunks as server-sent events, and the event [DONE]. %s names the receipt of a call that had a price.", caller.ReceiptHeader)
		return s
	}
	return []op.Spec{
		completing(openai.Completions, "asks the vacant that the model names", reflect.TypeFor[Completing]()),
		completing("/v/{vacant}"+openai.Completions, "asks a vacant", reflect.TypeFor[CompletingAt]()),
		of("GET", openai.Models, "lists the published vacants as models", reflect.TypeFor[struct{}](), reflect.TypeFor[openai.ModelList]()),
		of("GET", openai.Models+"/{model}", "shows a vacant as a model", reflect.TypeFor[OfModel](), reflect.TypeFor[openai.Model]()),
		of("GET", "/v/{vacant}"+openai.Models, "lists the vacant as a model", reflect.TypeFor[ModelsOf](), reflect.TypeFor[openai.ModelList]()),
	}
}
