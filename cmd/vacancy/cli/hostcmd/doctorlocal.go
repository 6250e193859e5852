package hostcmd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/vacantcmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func localFacts(a *kit.App, ctx context.Context, data string) (doctor.Local, error) {
	dir, err := a.DataDir(data)
	if err != nil {
		return doctor.Local{}, err
	}
	l := doctor.Local{Data: dir, Flag: kit.DataArg(data), Start: a.StartAgain(data), Path: kit.ShellWord(dir), Here: standalone.FileExists(filepath.Join(dir, standalone.DataFile)), Now: a.Now(), Command: kit.Version()}
	if !l.Here {
		return l, nil
	}
	free, size := standalone.Disk(dir)
	l.Open, l.Free, l.MinFree = openFiles(dir), free, standalone.MinFreeBytes(size)
	client, base, err := serve.DialAdmin(dir)
	if errors.Is(err, serve.ErrNoHost) {
		info, err := standalone.Inspect(dir)
		l.Stored, l.Outlook, l.Newer, l.Unreadable = info.String(), info.Outlook(), info.IsNewer(), err
		return l, nil
	}
	if l.Running, l.Err = true, err; err != nil {
		return l, nil
	}
	l.Err = askLocal(a, ctx, &l, &admin.Client{HTTP: client, URL: base})
	return l, nil
}

// askLocal collects the status of a running host and examines its answers to callers.
func askLocal(a *kit.App, ctx context.Context, l *doctor.Local, c *admin.Client) error {
	s, err := admin.GetStatus.Call(ctx, c, op.None{})
	if err != nil {
		return err
	}
	l.URL, l.Version, l.Started, l.Calls, l.Failed = s.URL, s.Version, s.Started, s.Calls, s.Failed
	if s.Stored.Format > 0 {
		l.Stored = standalone.DataVersion{Format: s.Stored.Format, Documents: s.Stored.Documents}.String()
	}
	web := a.WebClient(visitTime)
	defer web.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+standalone.ReadyPath, nil)
	if err != nil {
		return err
	}
	if answer, err := web.Do(r); err != nil {
		l.Ready.Err = err
	} else {
		_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16))
		answer.Body.Close()
		if l.Ready.Status = answer.StatusCode; answer.TLS != nil {
			l.Certificate = answer.TLS.PeerCertificates[0].NotAfter
		}
	}
	spelled := map[string]string{}
	for v, err := range c.All(ctx, false) {
		if err != nil {
			return err
		}
		lower := strings.ToLower(v.Name)
		if other, ok := spelled[lower]; ok {
			l.Alike = append(l.Alike, other, v.Name)
		}
		spelled[lower] = v.Name
		if !vacantcmd.CanCheck(&v) {
			continue
		}
		agent := doctor.Agent{Name: v.Name}
		if check, err := admin.CheckVacant.Call(ctx, c, admin.VacantRequest{Vacant: v.ID.String()}); err != nil {
			agent.Failure = problem.AsError(err).Text()
		} else if check.Failure != nil {
			agent.Failure, agent.NoWorker = kit.Clip(check.Failure.String(), kit.MaxShownCause), check.Failure.Kind == problem.NoWorker.String()
		}
		l.Agents = append(l.Agents, agent)
	}
	l.Issuers = reachIssuers(a, ctx, c)
	return nil
}

// reachIssuers fetches the keys of a host's issuers from this machine.
func reachIssuers(a *kit.App, ctx context.Context, c op.Client) (issuers doctor.Issuers) {
	list, err := account.ListIssuers.Call(ctx, c, op.None{})
	if err != nil {
		return doctor.Issuers{Err: err}
	}
	checker := a.Tokens(list.Issuers)
	for _, i := range list.Issuers {
		issuer := doctor.Issuer{ID: i.ID, URL: i.Issuer, Tenant: i.Tenant}
		if _, err := checker.CountKeys(ctx, &i); err != nil {
			issuer.Failure = kit.Clip(problem.AsError(err).Text(), kit.MaxShownCause)
		}
		issuers.All = append(issuers.All, issuer)
	}
	return issuers
}

// openFiles lists the files in dir that users other than their owner can read.
func openFiles(dir string) (open []string) {
	if runtime.GOOS == "windows" {
		return nil // on Windows, file modes do not say who can read a file
	}
	entries, _ := os.ReadDir(dir) // if the directory is unreadable, the data file is reported as missing
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Mode()&0o077 != 0 {
			open = append(open, e.Name())
		}
	}
	return open
}
