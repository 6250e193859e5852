// Command admin is the Lambda function of the admin API. With the operator's key it creates, lists,
// shows, changes, exports and deletes vacants, and shows the host's id.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/cloudfiles"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/cloudgate"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/thinkclient"
)

func main() {
	onlambda.Serve(functions.Admin, cloudgate.AdminHandler, thinkclient.Part, cloudfiles.Part)
}
