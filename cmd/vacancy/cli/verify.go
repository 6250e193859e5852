package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/home"
)

func (a *app) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify FILE",
		Short: "Check an export",
		Long: `Check an export offline: that the seed is the id's key, that the card and every
logbook entry are signed by it and linked, and that the chain states are whole.
It reports every part and ends with 1 if one is broken.`,
		Example: `  vacancy verify alice.vacancy.json`,
		GroupID: groupSelf,
		Args:    arguments(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			e, err := home.ReadExport(args[0])
			if err != nil {
				return err
			}
			r := verifyResult{File: args[0], Format: e.Format, Name: e.Name, ID: e.ID, Parts: e.Check()}
			r.OK = home.Whole(r.Parts)
			if err := a.show(r); err != nil || r.OK {
				return err
			}
			return &reported{}
		},
	}
}

// verifyResult is the report on an export.
type verifyResult struct {
	File   string         `json:"file"`
	Format string         `json:"format"`
	Name   string         `json:"name"`
	ID     string         `json:"vacant_id"`
	OK     bool           `json:"ok"`
	Parts  []home.Finding `json:"parts"`
}

func (r verifyResult) text(w io.Writer) {
	fmt.Fprintf(w, "%s: %s of %s\n", printable(r.File), r.Format, printable(r.Name))
	for _, p := range r.Parts {
		verdict := "ok"
		if !p.OK {
			verdict = "BROKEN"
		}
		fmt.Fprintf(w, "  %-8s %-7s %s\n", p.Part, verdict, printable(p.Detail))
	}
	if r.OK {
		fmt.Fprintln(w, "whole")
	} else {
		fmt.Fprintln(w, "broken")
	}
}
