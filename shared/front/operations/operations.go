// Package operations lists the operations of a host that has all parts, for descriptions. Servers do not
// import it, because they would link all handlers.
package operations

import (
	"slices"

	"github.com/vacancy-host/vacancy/shared/front/a2a"
	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/agp"
	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/front/resource"
)

// All returns the operations of a host that has all parts.
func All() []op.Spec {
	return slices.Concat(admin.Operations(), account.Operations(), agp.Operations(), registryapi.Operations(), a2a.Operations(), mcpserver.Operations(), resource.Operations(), export.Operations())
}
