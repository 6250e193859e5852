// Command admin is the Lambda function of the admin API.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/cloudfiles"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/cloudgate"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/thinkclient"
)

func main() {
	onlambda.Serve(functions.Admin, cloudgate.AdminHandler, thinkclient.AddThinker, cloudfiles.AddFiles)
}
