// Command message is the Lambda function of signed calls: message/send,
// chain/reset, message/ask, card and health.
package main

import (
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/thinkclient"
	"github.com/vacancy-host/vacancy/shared/front/serve"
)

func main() {
	onlambda.Serve(functions.Message, func(h *onlambda.Env) http.Handler {
		if h.Worker != "" {
			h.Server.HandOff(thinkclient.Worker(h.AWS, h.Worker))
		}
		return serve.Public(h.Server.MessageHandler())
	}, thinkclient.Part)
}
