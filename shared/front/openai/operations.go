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
	// CompletionRequest requests a completion at the host's own paths. The model names the vacant.
	CompletionRequest struct {
		MaxPrice       string                  `query:"max_price"`
		MaxPriceHeader string                  `header:"Vacancy-Max-Price"`
		Key            string                  `header:"Idempotency-Key"`
		Body           op.Raw[openaiwire.Body] `body:"json"`
	}
	VacantCompletionRequest struct {
		Vacant string `path:"vacant"`
		CompletionRequest
	}
	// ResponsesRequest requests an answer of the Responses API at the host's own paths. The model
	// names the vacant.
	ResponsesRequest struct {
		MaxPrice       string                           `query:"max_price"`
		MaxPriceHeader string                           `header:"Vacancy-Max-Price"`
		Key            string                           `header:"Idempotency-Key"`
		Body           op.Raw[openaiwire.ResponsesBody] `body:"json"`
	}
	VacantResponsesRequest struct {
		Vacant string `path:"vacant"`
		ResponsesRequest
	}
	VacantModelsRequest struct {
		Vacant string `path:"vacant"`
	}
	ModelRef struct {
		Model string `path:"model"`
	}
)

func Operations() []op.Spec {
	newSpec := func(method, path, doc string, in, out reflect.Type) op.Spec {
		return op.Spec{
			Method: method, Path: path, Status: http.StatusOK, Doc: doc + " (OpenAI)", In: in, Out: out,
			Access: op.Access{Anybody: true}, ErrorType: reflect.TypeFor[openaiwire.Failure](), IgnoresUnknown: true,
		}
	}
	newAskSpec := func(path, doc string, in, out reflect.Type, answer string) op.Spec {
		s := newSpec("POST", path, doc, in, out)
		s.Access.Key = billing.CallRequirement()
		s.AnswerMedia = []string{"application/json", plain.MediaEvents}
		s.AnswerDoc = fmt.Sprintf("%s %s names the receipt of a call that had a price.", answer, caller.ReceiptHeader)
		return s
	}
	completion, response := reflect.TypeFor[openaiwire.Completion](), reflect.TypeFor[openaiwire.Response]()
	const chunks = "A completion, or with stream its chunks as server-sent events, and the event [DONE]."
	const events = "A response, or with stream the events from response.created to response.completed."
	return []op.Spec{
		newAskSpec(openaiwire.CompletionsPath, "asks the vacant that the model names", reflect.TypeFor[CompletionRequest](), completion, chunks),
		newAskSpec("/v/{vacant}"+openaiwire.CompletionsPath, "asks a vacant", reflect.TypeFor[VacantCompletionRequest](), completion, chunks),
		newAskSpec(openaiwire.ResponsesPath, "asks the vacant that the model names by Responses", reflect.TypeFor[ResponsesRequest](), response, events),
		newAskSpec("/v/{vacant}"+openaiwire.ResponsesPath, "asks a vacant by Responses", reflect.TypeFor[VacantResponsesRequest](), response, events),
		newSpec("GET", openaiwire.ModelsPath, "lists the published vacants as models", reflect.TypeFor[struct{}](), reflect.TypeFor[openaiwire.ModelList]()),
		newSpec("GET", openaiwire.ModelsPath+"/{model}", "shows a vacant as a model", reflect.TypeFor[ModelRef](), reflect.TypeFor[openaiwire.Model]()),
		newSpec("GET", "/v/{vacant}"+openaiwire.ModelsPath, "lists the vacant as a model", reflect.TypeFor[VacantModelsRequest](), reflect.TypeFor[openaiwire.ModelList]()),
	}
}
