// Package operations lists all operations of a host for its descriptions. Servers must not import
// it, because it links all handlers.
package operations

import (
	"slices"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/agp"
	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/front/handlers"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/openapi"
	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/front/resource"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/front/workapi"
	"github.com/vacancy-host/vacancy/shared/front/workspaceapi"
)

type group struct {
	openapi.Group
	operations func() []op.Spec
}

var groups = append(protocols(), []group{
	{openapi.Group{Name: "Registry", Description: "Search, cards and the transparency log."}, registryapi.Operations},
	{openapi.Group{Name: "Accounts", Description: "Accounts, keys, usage, payments and receipts."}, account.Operations},
	{openapi.Group{Name: "Teams", Description: "Agents of an account, and the tasks that are dispatched to them."}, teamapi.Operations},
	{openapi.Group{Name: "Files", Description: "Workspaces of an account, and the files in them."}, workspaceapi.Operations},
	{openapi.Group{Name: "Work", Description: "Turns of vacants, for workers that run elsewhere."}, workapi.Operations},
	{openapi.Group{Name: "Bookings", Description: "Bookings of venues by AGP, and metrics."}, agp.Operations},
	{openapi.Group{Name: "Logins", Description: "Issuers whose tokens the host accepts."}, resource.Operations},
	{openapi.Group{Name: "Administration", Description: "Vacants and settings, for the operator and for tenants."}, admin.Operations},
	{openapi.Group{Name: "Export", Description: "Stored data, for the operator."}, export.Operations},
}...)

func protocols() (protocolGroups []group) {
	for _, row := range slices.Backward(handlers.ProtocolHandlers()) {
		protocolGroups = append(protocolGroups, group{row.Group, row.Operations})
	}
	return protocolGroups
}

// All returns the operations of a host that has all parts, each with the name of its group.
func All() []op.Spec {
	var specs []op.Spec
	for _, g := range groups {
		for _, s := range g.operations() {
			s.Group = g.Name
			specs = append(specs, s)
		}
	}
	return specs
}

func Groups() []openapi.Group {
	var apiGroups []openapi.Group
	for _, g := range groups {
		if !slices.Contains(apiGroups, g.Group) { // protocols may share a group
			apiGroups = append(apiGroups, g.Group)
		}
	}
	return apiGroups
}
