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
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
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

// reportsElsewhere makes the reports of a remote host in this process: over its
// tables with the person's AWS credentials, or over its export pages.
func (a *app) reportsElsewhere(ctx context.Context, at *remoteHost, read readFlags) (*reports, error) {
	if at.aws {
		_, mine, err := a.openStage(ctx, at.stage)
		if err != nil {
			return nil, err
		}
		tables, err := mine.Tables(ctx, at.stage, read.units, a.now)
		if err != nil {
			return nil, err
		}
		return a.reportsOf(export.Config{Source: tables, Vault: tables.Vault, Now: a.now}, namedIn(tables), tables.Close), nil
	}
	url, key, err := at.keyed(at.record.ExportURL)
	if err != nil {
		return nil, err
	}
	host, err := remote.Open(ctx, remote.Config{HTTP: keyedClient(key), URL: url})
	if err != nil {
		return nil, err
	}
	plane := admin.Client{HTTP: keyedClient(key), URL: at.record.AdminURL}
	return a.reportsOf(export.Config{Source: host, Vault: host.Vault(), Now: a.now, Retention: host.Retention()}, func(ctx context.Context, word string) (admin.Vacant, error) {
		return admin.ShowVacant.Call(ctx, plane, admin.One{Vacant: word})
	}, func() error { return nil }), nil
}

// reportsOf serves the streaming routes in this process.
func (a *app) reportsOf(c export.Config, named func(context.Context, string) (admin.Vacant, error), end func() error) *reports {
	mux := http.NewServeMux()
	mux.Handle("/v1/admin/verify", export.Verify(c))
	mux.Handle("/v1/admin/chain/{from}/{to}", export.Chain(c))
	client, base := serve.InProcess(mux)
	return &reports{admin.Client{HTTP: client, URL: base}, named, end}
}

// namedIn looks a name up in the host's documents.
func namedIn(docs store.Reader) func(context.Context, string) (admin.Vacant, error) {
	return func(ctx context.Context, word string) (v admin.Vacant, err error) {
		missing := problem.New(problem.NotFound, "no vacant named %.80q is hosted there", word)
		if registry.CheckName(word) != nil {
			return v, missing
		}
		id, d, err := vacants.NameDocs.Get(ctx, docs, vacants.NameKey(word))
		if err == nil && d.Version == 0 {
			err = missing
		}
		v.ID = id
		return v, err
	}
}
