package cli

import (
	"context"
	"fmt"
	"math"
	"net/http"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/front/export/remote"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// readFlags limit what a report reads.
type readFlags struct {
	units float64 // read units a second; 0: unlimited
}

func readUnits(fs *pflag.FlagSet, r *readFlags) {
	fs.Float64Var(&r.units, "read-units", 0, "with --host aws: the most read units a second (0: no limit)")
}

func (r readFlags) check(at *remoteHost) error {
	switch {
	case r.units < 0 || math.IsNaN(r.units) || math.IsInf(r.units, 0):
		return &problem.Error{Kind: problem.Usage, Field: "--read-units", Want: "a number above 0", Got: fmt.Sprint(r.units)}
	case r.units > 0 && (at == nil || !at.aws):
		return problem.New(problem.Usage, "--read-units goes with --host aws")
	}
	return nil
}

// reportsElsewhere serves the streaming routes in this process: over a remote host's
// tables with the person's AWS credentials, or over its export pages.
func (a *app) reportsElsewhere(ctx context.Context, at *remoteHost, read readFlags) (*adminAPI, error) {
	c := export.Config{Now: a.now}
	end := func() error { return nil }
	if at.aws {
		_, mine, err := a.openStage(ctx, at.stage)
		if err != nil {
			return nil, err
		}
		tables, err := mine.Tables(ctx, at.stage, read.units, a.now)
		if err != nil {
			return nil, err
		}
		c.Source, c.Vault, end = tables, tables.Vault, tables.Close
	} else {
		url, key, err := at.keyed(at.record.ExportURL)
		if err != nil {
			return nil, err
		}
		host, err := remote.Open(ctx, remote.Config{HTTP: keyedClient(key), URL: url})
		if err != nil {
			return nil, err
		}
		c.Source, c.Vault, c.Retention = host, host.Vault(), host.Retention()
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/admin/verify", export.Verify(c))
	mux.Handle("/v1/admin/chain/{from}/{to}", export.Chain(c))
	client, base := serve.InProcess(mux)
	return &adminAPI{admin.Client{HTTP: client, URL: base}, at, end}, nil
}
