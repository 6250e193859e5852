package openai

import (
	"fmt"
	"net/http"
	"reflect"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/openai/openaiwire"
	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/host/billing"
)

type (
	// Completing is a request for a completion at the host's own paths. The model names the vacant.
	Completing struct {
		MaxPrice string                  `query:"max_price"`
		Most     string                  `header:"Vacancy-Max-Price"`
		Key      string                  `header:"Idempotency-Key"`
		Body     op.Raw[openaiwire.Body] `body:"json"`
	}
	CompletingAt struct {
		Vacant string `path:"vacant"`
		Completing
	}
	// Responding is a request of the Responses API at the host's own paths. The model names the
	// vacant.
	Responding struct {
		MaxPrice string                           `query:"max_price"`
		Most     string                           `header:"Vacancy-Max-Price"`
		Key      string                           `header:"Idempotency-Key"`
		Body     op.Raw[openaiwire.ResponsesBody] `body:"json"`
	}
	RespondingAt struct {
		Vacant string `path:"vacant"`
		Responding
	}
	ModelsOf struct {
		Vacant string `path:"vacant"`
	}
	// OfModel is a request for a vacant by its model name.
	OfModel struct {
		Model string `path:"model"`
	}
)

func Operations() []op.Spec {
	newSpec := func(method, path, doc string, in, out reflect.Type) op.Spec {
		return op.Spec{
			Method: method, Path: path, Status: http.StatusOK, Doc: doc + " (OpenAI)", In: in, Out: out,
			Access: op.Access{Anybody: true}, Errors: reflect.TypeFor[openaiwire.Failure](), Open: true,
		}
	}
	asking := func(path, doc string, in, out reflect.Type, answer string) op.Spec {
		s := newSpec("POST", path, doc, in, out)
		s.Access.Key = billing.CallDemand()
		s.Gives = []string{"application/json", plain.MediaEvents}
		s.Answer = fmt.Sprintf("%s %s names the receipt of a call that had a price.", answer, caller.ReceiptHeader)
		return s
	}
	completion, response := reflect.TypeFor[openaiwire.Completion](), reflect.TypeFor[openaiwire.Response]()
	const chunks = "A completion, or with stream its chunks as server-sent events, and the event [DONE]."
	const events = "A response, or with stream the events from response.created to response.completed."
	return []op.Spec{
		asking(openaiwire.Completions, "asks the vacant that the model names", reflect.TypeFor[Completing](), completion, chunks),
		asking("/v/{vacant}"+openaiwire.Completions, "asks a vacant", reflect.TypeFor[CompletingAt](), completion, chunks),
		asking(openaiwire.ResponsesPath, "asks the vacant that the model names by Responses", reflect.TypeFor[Responding](), response, events),
		asking("/v/{vacant}"+openaiwire.ResponsesPath, "asks a vacant by Responses", reflect.TypeFor[RespondingAt](), response, events),
		newSpec("GET", openaiwire.Models, "lists the published vacants as models", reflect.TypeFor[struct{}](), reflect.TypeFor[openaiwire.ModelList]()),
		newSpec("GET", openaiwire.Models+"/{model}", "shows a vacant as a model", reflect.TypeFor[OfModel](), reflect.TypeFor[openaiwire.Model]()),
		newSpec("GET", "/v/{vacant}"+openaiwire.Models, "lists the vacant as a model", reflect.TypeFor[ModelsOf](), reflect.TypeFor[openaiwire.ModelList]()),
	}
}
