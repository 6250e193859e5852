// Command account is the Lambda function behind the control plane's door, for
// who holds the operator's key: it creates, lists, shows, changes, exports and
// deletes vacants, and says who the host is.
package main

import (
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
)

func main() {
	onlambda.Serve(onlambda.Account, func(h *onlambda.Home) http.Handler { return h.House.Account })
}
