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

func collectLocalFacts(a *kit.App, ctx context.Context, data string) (doctor.Local, error) {
	dir, err := a.DataDir(data)
	if err != nil {
		return doctor.Local{}, err
	}
	facts := doctor.Local{DataDir: dir, DataFlag: kit.DataArg(data), StartCommand: a.StartHint(data), QuotedDir: kit.ShellWord(dir), HasData: standalone.FileExists(filepath.Join(dir, standalone.DataFile)), Now: a.Now(), CommandVersion: kit.Version()}
	if !facts.HasData {
		return facts, nil
	}
	free, size := standalone.Disk(dir)
	facts.ExposedFiles, facts.FreeBytes, facts.MinFreeBytes = listExposedFiles(dir), free, standalone.MinFreeBytes(size)
	client, base, err := serve.DialAdmin(dir)
	if errors.Is(err, serve.ErrNoHost) {
		info, err := standalone.InspectData(dir)
		facts.StoredFormat, facts.UpgradeOutlook, facts.WrittenByNewer, facts.FormatErr = info.String(), info.UpgradeMessage(), info.IsNewer(), err
		return facts, nil
	}
	if facts.Running, facts.Err = true, err; err != nil {
		return facts, nil
	}
	facts.Err = examineRunningHost(a, ctx, &facts, &admin.Client{HTTP: client, URL: base})
	return facts, nil
}

func examineRunningHost(a *kit.App, ctx context.Context, facts *doctor.Local, c *admin.Client) error {
	status, err := admin.GetStatus.Call(ctx, c, op.None{})
	if err != nil {
		return err
	}
	facts.URL, facts.Version, facts.StartedAt, facts.Calls, facts.Failed = status.URL, status.Version, status.StartedAt, status.Calls, status.Failed
	if status.Stored.Format > 0 {
		facts.StoredFormat = standalone.DataVersion{Format: status.Stored.Format, Documents: status.Stored.Documents}.String()
	}
	client := a.HTTPClient(answerTimeout)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, status.URL+standalone.ReadyPath, nil)
	if err != nil {
		return err
	}
	if resp, err := client.Do(req); err != nil {
		facts.Ready.Err = err
	} else {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
		resp.Body.Close()
		if facts.Ready.Status = resp.StatusCode; resp.TLS != nil {
			facts.CertificateEnd = resp.TLS.PeerCertificates[0].NotAfter
		}
	}
	namesByLower := map[string]string{}
	for v, err := range c.AllVacants(ctx, false) {
		if err != nil {
			return err
		}
		lowerName := strings.ToLower(v.Name)
		if other, ok := namesByLower[lowerName]; ok {
			facts.CaseCollisions = append(facts.CaseCollisions, other, v.Name)
		}
		namesByLower[lowerName] = v.Name
		if !vacantcmd.CanCheck(&v) {
			continue
		}
		agent := doctor.Agent{Name: v.Name}
		if check, err := admin.CheckVacant.Call(ctx, c, admin.VacantRef{Vacant: v.ID.String()}); err != nil {
			agent.Failure = problem.AsError(err).Text()
		} else if check.Failure != nil {
			agent.Failure, agent.NoWorker = kit.Truncate(check.Failure.String(), kit.MaxShownCause), check.Failure.Kind == problem.NoWorker.String()
		}
		facts.Agents = append(facts.Agents, agent)
	}
	facts.Issuers = collectIssuers(a, ctx, c)
	return nil
}

func collectIssuers(a *kit.App, ctx context.Context, c op.Client) (issuers doctor.Issuers) {
	list, err := account.ListIssuers.Call(ctx, c, op.None{})
	if err != nil {
		return doctor.Issuers{Err: err}
	}
	checker := a.TokenChecker(list.Issuers)
	for _, i := range list.Issuers {
		issuer := doctor.Issuer{ID: i.ID, URL: i.URL, Tenant: i.Tenant}
		if _, err := checker.CountKeys(ctx, &i); err != nil {
			issuer.Failure = kit.Truncate(problem.AsError(err).Text(), kit.MaxShownCause)
		}
		issuers.All = append(issuers.All, issuer)
	}
	return issuers
}

// listExposedFiles lists the files that users other than their owner can read.
func listExposedFiles(dir string) (exposed []string) {
	if runtime.GOOS == "windows" {
		return nil // file modes do not say who can read a file
	}
	entries, _ := os.ReadDir(dir) // if the directory is unreadable, the data file is reported as missing
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Mode()&0o077 != 0 {
			exposed = append(exposed, e.Name())
		}
	}
	return exposed
}
