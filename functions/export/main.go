// Command export is the Lambda function of the paged export that `vacancy verify --host` reads with
// the operator's key. It reads all data and does not write.
package main

import (
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

func main() {
	onlambda.Serve(functions.Export, func(h *onlambda.Env) http.Handler {
		return admin.RequireKey(h.Operator, export.Pages(export.Config{
			Source: h.Store, Vault: h.Vault, Now: time.Now, Retention: h.Retention, Log: h.Log,
		}))
	})
}
