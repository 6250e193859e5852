package kit

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

// ReadFlags limits what a report reads.
type ReadFlags struct {
	Units float64 // read units per second; 0 means no limit
}

func ReadUnits(fs *pflag.FlagSet, r *ReadFlags) {
	fs.Float64Var(&r.Units, "read-units", 0, "with --host aws: the maximum read units a second (default no limit)")
}

func (r ReadFlags) CheckHost(host *RemoteHost) error {
	switch {
	case r.Units < 0 || math.IsNaN(r.Units) || math.IsInf(r.Units, 0):
		return &problem.Error{Kind: problem.Usage, Field: "--read-units", Want: "a number above 0", Got: fmt.Sprint(r.Units)}
	case r.Units > 0 && (host == nil || !host.AWS):
		return problem.New(problem.Usage, "--read-units: not supported without --host aws")
	}
	return nil
}

// reportsElsewhere serves the reports of WithReports for a remote host in this process. It reads
// the tables of a stage with the user's AWS credentials, and the export pages of any other host.
func (a *App) reportsElsewhere(ctx context.Context, remoteHost *RemoteHost, read ReadFlags) (*AdminAPI, error) {
	c := export.Config{Now: a.Now}
	end := func() error { return nil }
	if remoteHost.AWS {
		_, mine, err := a.OpenStage(ctx, remoteHost.Stage)
		if err != nil {
			return nil, err
		}
		tables, err := mine.Tables(ctx, remoteHost.Stage, read.Units, a.Now)
		if err != nil {
			return nil, err
		}
		c.Source, c.Vault, c.Blobs, end = tables, tables.Vault, tables.Blobs, tables.Close
	} else {
		url, key, err := remoteHost.operatorURL(remoteHost.Record.ExportURL)
		if err != nil {
			return nil, err
		}
		host, err := remote.Open(ctx, remote.Config{HTTP: a.KeyedClient(key), URL: url})
		if err != nil {
			return nil, err
		}
		c.Source, c.Vault, c.Retention = host, host.Vault(), host.Retention()
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/admin/verify", export.Verify(c))
	mux.Handle("/v1/admin/chain/{from}/{to}", export.Chain(c))
	client, base := serve.InProcess(mux)
	return &AdminAPI{admin.Client{HTTP: client, URL: base}, remoteHost, end, false}, nil
}
