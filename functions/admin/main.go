// Command account is the Lambda function behind the control plane's handler, for
// who holds the operator's key: it creates, lists, shows, changes, exports and
// deletes vacants, and says who the host is.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/cloudgate"
)

func main() { onlambda.Serve(onlambda.Admin, cloudgate.AdminHandler) }
