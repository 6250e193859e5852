package doctor

import (
	"net"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
)

// Local contains facts about a host on this machine.
type Local struct {
	DataDir      string
	DataFlag     string // " --data DIR", or "" for the default directory
	QuotedDir    string // for a shell
	StartCommand string
	HasData      bool
	// ExposedFiles lists private files that other users can read.
	ExposedFiles []string
	// FreeBytes is negative if it is unknown. A public host refuses writes if less than
	// MinFreeBytes are free.
	FreeBytes, MinFreeBytes int64

	// UpgradeOutlook describes what the next start does with the data. It is "" if the data need no
	// upgrade.
	StoredFormat, UpgradeOutlook string
	FormatErr                    error
	WrittenByNewer               bool

	Running                 bool
	Err                     error  // reason why a running host does not answer
	URL                     string // public URL
	Version, CommandVersion string
	StartedAt               time.Time
	Calls, Failed           uint64    // see admin.Status
	Ready                   Answer    // answer of URL/ready
	CertificateEnd          time.Time // zero without TLS
	CaseCollisions          []string  // names that differ from another name only by case
	Agents                  []Agent
	Issuers                 Issuers
	Now                     time.Time
}

type Agent struct {
	Name, Failure string
	NoWorker      bool
}

// The disk check fails below minFreeBytes, and warns below lowFreeBytes.
const (
	minFreeBytes = 100 << 20
	lowFreeBytes = 1 << 30
)

// certificateWarning is less than a month, because a certificate from --tls-domain is renewed a
// month before its end.
const certificateWarning = 14 * 24 * time.Hour

func ExamineLocal(l Local) Report {
	r := Report{Data: l.DataDir}
	for _, row := range []struct {
		name    string
		running bool // the check needs a running host
		judge   func(Local) Check
	}{
		{"data directory", false, Local.checkDirectory}, {"file modes", false, Local.checkFileModes}, {"disk", false, Local.checkDisk}, {"data", false, Local.checkData}, {"host", false, Local.checkHost},
		{"version", true, Local.checkVersion}, {"public URL", true, Local.checkPublicURL}, {"certificate", true, Local.checkCertificate},
		{"names", true, Local.checkNames}, {"agents", true, Local.checkAgents}, {"issuers", true, Local.checkIssuers}, {"calls", true, Local.checkCalls},
	} {
		var c Check
		switch {
		case row.name != "data directory" && !l.HasData:
			c = skip("needs a host's data")
		case row.running && (!l.Running || l.Err != nil):
			c = skip("needs a running host")
		default:
			c = row.judge(l)
		}
		c.Name = row.name
		r.Checks = append(r.Checks, c)
	}
	r.OK = r.Count(Fail) == 0
	return r
}

func (l Local) checkDirectory() Check {
	if !l.HasData {
		return fail(l.StartCommand, "no host in %s", l.DataDir)
	}
	return pass("%s", l.DataDir)
}

func (l Local) checkFileModes() Check {
	if len(l.ExposedFiles) > 0 {
		return fail("chmod -R go= "+l.QuotedDir, "other users can read %s", strings.Join(l.ExposedFiles, ", "))
	}
	return pass("only you can read the keys and the data")
}

func (l Local) checkDisk() Check {
	const fix = "make room, or move the data directory while its host is stopped"
	switch {
	case l.FreeBytes < 0:
		return skip("the free space is not known on this system")
	case l.FreeBytes < minFreeBytes:
		return fail(fix, "%d MB are free: a host that cannot write refuses calls", l.FreeBytes>>20)
	case l.FreeBytes < l.MinFreeBytes:
		return warn(fix, "%d MB are free; if less than %d MB are free, vacancy serve refuses write requests from others (429)", l.FreeBytes>>20, l.MinFreeBytes>>20)
	case l.FreeBytes < lowFreeBytes:
		return warn(fix, "%d MB are free", l.FreeBytes>>20)
	}
	return pass("%d GB are free", l.FreeBytes>>30)
}

func (l Local) checkData() Check {
	switch {
	case l.FormatErr != nil:
		return fail("vacancy restore FILE, from a backup", "%s", l.FormatErr)
	case l.WrittenByNewer:
		return fail("install the vacancy that wrote the data, or a newer one", "%s", l.UpgradeOutlook)
	case l.UpgradeOutlook != "":
		return warn(l.StartCommand, "%s", l.UpgradeOutlook)
	case l.StoredFormat == "":
		return skip("the host does not report the format of its data")
	}
	return pass("%s", l.StoredFormat)
}

func (l Local) checkNames() Check {
	if len(l.CaseCollisions) > 0 {
		return warn("vacancy update "+l.CaseCollisions[0]+" name=OTHER"+l.DataFlag, "names differ only by upper and lower case, which an earlier version of vacancy allowed: %s", strings.Join(l.CaseCollisions, ", "))
	}
	return pass("no two names differ only by upper and lower case")
}

func (l Local) checkHost() Check {
	fix := l.StartCommand
	switch {
	case !l.Running:
		return warn(fix, "the host is not running")
	case l.Err != nil:
		return fail("end the process, and start it again: "+fix, "a host is running, and its admin socket does not answer: %s", l.Err)
	}
	return pass("running since %s", l.StartedAt.Format(time.DateTime))
}

func (l Local) checkVersion() Check {
	switch {
	case isAmbiguousVersion(l.Version) || isAmbiguousVersion(l.CommandVersion):
		return skip("the host or this command is a build without a unique version")
	case l.Version != l.CommandVersion:
		return warn("end the host, and start it by this command", "the host has version %s, and this command has version %s", l.Version, l.CommandVersion)
	}
	return pass("%s", l.Version)
}

// isAmbiguousVersion reports whether different builds may have this version.
func isAmbiguousVersion(version string) bool {
	return version == "" || strings.Contains(version, "(devel)") || strings.Contains(version, "+dirty")
}

func (l Local) checkPublicURL() Check {
	fix := "curl -i " + l.URL + "/ready    # from elsewhere too: proxy, DNS, firewall"
	switch {
	case l.Ready.Err != nil:
		return fail(fix, "%s does not answer from here: %s", l.URL, l.Ready.Err)
	case l.Ready.Status != 200:
		return fail(fix, "%s/ready answers %d", l.URL, l.Ready.Status)
	}
	return pass("%s answers", l.URL)
}

func (l Local) checkCertificate() Check {
	remaining := l.CertificateEnd.Sub(l.Now)
	switch {
	case l.CertificateEnd.IsZero():
		return skip("the public URL has no TLS")
	case remaining < 0:
		return fail("renew the files of --tls-cert and --tls-key: the host reads them again", "it expired at %s", l.CertificateEnd.Format(time.DateTime))
	case remaining < certificateWarning:
		return warn("renew it; the host renews a certificate of --tls-domain itself, and vacancy logs shows the errors", "it expires in %d days", int(remaining.Hours()/24))
	}
	return pass("it expires in %d days", int(remaining.Hours()/24))
}

func (l Local) checkAgents() Check {
	var failing, withoutWorker []string
	fix := "vacancy logs --failed" + l.DataFlag
	for _, a := range l.Agents {
		switch {
		case a.NoWorker:
			withoutWorker = append(withoutWorker, a.Name)
		case a.Failure != "":
			failing = append(failing, a.Name+": "+a.Failure)
		}
	}
	isStopped := func(a Agent) bool {
		_, address, ok := strings.Cut(a.Failure, "no server listens at ")
		address, _, _ = strings.Cut(address, " ")
		host, _, err := net.SplitHostPort(strings.TrimRight(address, ",;"))
		return ok && err == nil && outbound.IsThisMachine(host)
	}
	if i := slices.IndexFunc(l.Agents, isStopped); i >= 0 {
		fix = "start the program of " + l.Agents[i].Name + ", such as with vacancy watch DIR"
	}
	switch {
	case len(l.Agents) == 0:
		return skip("no vacant has an agent of its own")
	case len(failing) > 0:
		return fail(fix, "%d of %d do not answer: %s", len(failing), len(l.Agents), strings.Join(failing, "; "))
	case len(withoutWorker) > 0:
		return warn("start a worker, such as with vacancy watch DIR --host URL", "no worker connected: %s", strings.Join(withoutWorker, ", "))
	}
	return pass("all %d answer", len(l.Agents))
}

func (l Local) checkCalls() Check {
	if l.Failed > 0 {
		return warn("vacancy logs --failed"+l.DataFlag, "%d of %d failed since the host was started", l.Failed, l.Calls)
	}
	return pass("%d since the host was started, none failed", l.Calls)
}
