package cli

import (
	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/openapi"
)

func openapiCommand(a *kit.App) *cobra.Command {
	return &cobra.Command{
		Use:   "openapi",
		Short: "Print the OpenAPI document of a host",
		Long: `Print the OpenAPI 3.1 document of a host: its operations with their bodies, answers, errors and
examples, and who may use them. A host serves it at /v1/openapi.json. A host without accounts,
registry or gate answers the operations of these parts with 404.`,
		Example: "  vacancy openapi > openapi.json",
		RunE: func(*cobra.Command, []string) error {
			_, err := a.Out.Write(openapi.JSON)
			return err
		},
	}
}
