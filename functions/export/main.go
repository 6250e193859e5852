// Command export is the Lambda function of the paged export that `vacancy verify --host` reads.
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
	onlambda.Serve(functions.Export, func(env *onlambda.Env) http.Handler {
		return admin.RequireKey(env.Operator, export.PagesHandler(export.Config{
			Source: env.Store, Vault: env.Vault, Now: time.Now, Retention: env.Retention, Log: env.Log,
		}))
	})
}
