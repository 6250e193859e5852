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

type ReadFlags struct {
	UnitsPerSecond float64 // 0 means no limit
}

func AddReadUnitsFlag(fs *pflag.FlagSet, r *ReadFlags) {
	fs.Float64Var(&r.UnitsPerSecond, "read-units", 0, "with --host aws: the maximum read units per second (default no limit)")
}

func (r ReadFlags) CheckHost(host *RemoteHost) error {
	switch {
	case r.UnitsPerSecond < 0 || math.IsNaN(r.UnitsPerSecond) || math.IsInf(r.UnitsPerSecond, 0):
		return &problem.Error{Kind: problem.Usage, Field: "--read-units", Want: "a number above 0", Got: fmt.Sprint(r.UnitsPerSecond)}
	case r.UnitsPerSecond > 0 && (host == nil || !host.AWS):
		return problem.New(problem.Usage, "--read-units: not supported without --host aws")
	}
	return nil
}

// openRemoteReports reads the tables of a stage with the user's AWS credentials, and the export
// pages of any other host.
func (a *App) openRemoteReports(ctx context.Context, remoteHost *RemoteHost, readFlags ReadFlags) (*AdminAPI, error) {
	config := export.Config{Now: a.Now}
	closeSource := func() error { return nil }
	if remoteHost.AWS {
		_, cloudAccount, err := a.OpenStage(ctx, remoteHost.Stage)
		if err != nil {
			return nil, err
		}
		tables, err := cloudAccount.OpenTables(ctx, remoteHost.Stage, readFlags.UnitsPerSecond, a.Now)
		if err != nil {
			return nil, err
		}
		config.Source, config.Vault, config.OpenBlobs, closeSource = tables, tables.Vault, tables.Blobs, tables.Close
	} else {
		url, key, err := remoteHost.operatorAccess(remoteHost.Record.ExportURL)
		if err != nil {
			return nil, err
		}
		host, err := remote.Connect(ctx, remote.Config{HTTP: a.KeyedClient(key), URL: url})
		if err != nil {
			return nil, err
		}
		config.Source, config.Vault, config.Retention = host, host.Vault(), host.Retention()
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/admin/verify", export.VerifyHandler(config))
	mux.Handle("/v1/admin/chain/{from}/{to}", export.ChainHandler(config))
	client, base := serve.InProcessClient(mux)
	return &AdminAPI{admin.Client{HTTP: client, URL: base}, remoteHost, closeSource, false}, nil
}
