// Command audit is the Lambda function behind the paged export that `vacancy
// verify --host` reads, for who holds the operator's key. It reads everything
// and writes nothing.
package main

import (
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/audit"
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
)

func main() {
	onlambda.Serve(onlambda.Audit, func(h *onlambda.Home) http.Handler {
		return account.Keyed(h.Operator, audit.Pages(audit.Config{
			Home: h.Store, Vault: h.Vault, Now: time.Now, Retention: h.Retention, Log: h.Log,
		}))
	})
}
