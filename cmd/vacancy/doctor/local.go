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
	Data  string
	Flag  string // flag to append to commands: " --data DIR", or "" for the default directory
	Path  string // data directory, quoted for a shell
	Start string // command that starts the host
	Here  bool   // the data directory contains a host's data
	// Open lists files that only their owner should be able to read, but that others can read.
	Open []string
	// Free space on the disk in bytes, negative if it is unknown, and the free space below which a
	// public host refuses requests that write.
	Free, MinFree int64

	// Format version of the data, and a description of what the next start does with the data. The
	// description is "" if the data need no upgrade.
	Stored, Outlook string
	Unreadable      error // reason why the format version cannot be read
	Newer           bool  // a newer program wrote the data

	Running bool
	Err     error  // reason why a running host does not answer
	URL     string // public URL
	// Versions of the host and of this command.
	Version, Command string
	Started          time.Time
	Calls, Failed    uint64    // see admin.Status
	Ready            Answer    // answer of URL/ready from this machine
	Certificate      time.Time // end of its validity; zero without TLS
	Alike            []string  // names of vacants that differ from another name only by case
	Agents           []Agent
	Issuers          Issuers
	Now              time.Time
}

// Agent is the agent of a hosted vacant.
type Agent struct {
	Name, Failure string
	NoWorker      bool // Failure says that no worker is connected
}

// Free disk space, in bytes, below which the disk check fails (leastFree) or warns (someFree).
const (
	leastFree = 100 << 20
	someFree  = 1 << 30
)

// certificateSoon is the remaining validity below which a certificate causes a warning. A
// certificate from --tls-domain is renewed a month before its end.
const certificateSoon = 14 * 24 * time.Hour

func ExamineLocal(l Local) Report {
	r := Report{Data: l.Data}
	for _, row := range []struct {
		name    string
		running bool // the check needs a running host
		judge   func(Local) Check
	}{
		{"data directory", false, Local.directory}, {"file modes", false, Local.modes}, {"disk", false, Local.disk}, {"data", false, Local.data}, {"host", false, Local.host},
		{"version", true, Local.version}, {"public URL", true, Local.public}, {"certificate", true, Local.certificate},
		{"names", true, Local.names}, {"agents", true, Local.agents}, {"issuers", true, Local.issuers}, {"calls", true, Local.calls},
	} {
		var c Check
		switch {
		case row.name != "data directory" && !l.Here:
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

func (l Local) directory() Check {
	if !l.Here {
		return fail(l.Start, "no host in %s", l.Data)
	}
	return ok("%s", l.Data)
}

func (l Local) modes() Check {
	if len(l.Open) > 0 {
		return fail("chmod -R go= "+l.Path, "others can read %s", strings.Join(l.Open, ", "))
	}
	return ok("only you can read the keys and the data")
}

func (l Local) disk() Check {
	const fix = "make room, or move the data directory while its host is stopped"
	switch {
	case l.Free < 0:
		return skip("the free space is not known on this system")
	case l.Free < leastFree:
		return fail(fix, "%d MB are free: a host that cannot write refuses calls", l.Free>>20)
	case l.Free < l.MinFree:
		return warn(fix, "%d MB are free: below %d MB vacancy serve refuses write requests from others (429)", l.Free>>20, l.MinFree>>20)
	case l.Free < someFree:
		return warn(fix, "%d MB are free", l.Free>>20)
	}
	return ok("%d GB are free", l.Free>>30)
}

func (l Local) data() Check {
	switch {
	case l.Unreadable != nil:
		return fail("vacancy restore FILE, from a backup", "%s", l.Unreadable)
	case l.Newer:
		return fail("install the vacancy that wrote the data, or a newer one", "%s", l.Outlook)
	case l.Outlook != "":
		return warn(l.Start, "%s", l.Outlook)
	case l.Stored == "":
		return skip("the host does not report the format of its data")
	}
	return ok("%s", l.Stored)
}

func (l Local) names() Check {
	if len(l.Alike) > 0 {
		return warn("vacancy update "+l.Alike[0]+" name=OTHER"+l.Flag, "names differ only by upper and lower case, which an earlier version of vacancy allowed: %s", strings.Join(l.Alike, ", "))
	}
	return ok("no two names differ only by upper and lower case")
}

func (l Local) host() Check {
	fix := l.Start
	switch {
	case !l.Running:
		return warn(fix, "the host is not running")
	case l.Err != nil:
		return fail("end the process, and start it again: "+fix, "a host is running, and its admin socket does not answer: %s", l.Err)
	}
	return ok("running since %s", l.Started.Format(time.DateTime))
}

func (l Local) version() Check {
	switch {
	case isUnversioned(l.Version) || isUnversioned(l.Command):
		return skip("a build outside a clone does not know its version")
	case l.Version != l.Command:
		return warn("end the host, and start it by this command", "the host is of %s, this command of %s", l.Version, l.Command)
	}
	return ok("%s", l.Version)
}

// isUnversioned reports whether different builds may have this version.
func isUnversioned(version string) bool {
	return version == "" || strings.Contains(version, "(devel)") || strings.Contains(version, "+dirty")
}

func (l Local) public() Check {
	fix := "curl -i " + l.URL + "/ready    # from elsewhere too: proxy, DNS, firewall"
	switch {
	case l.Ready.Err != nil:
		return fail(fix, "%s does not answer from here: %s", l.URL, l.Ready.Err)
	case l.Ready.Status != 200:
		return fail(fix, "%s/ready answers %d", l.URL, l.Ready.Status)
	}
	return ok("%s answers", l.URL)
}

func (l Local) certificate() Check {
	left := l.Certificate.Sub(l.Now)
	switch {
	case l.Certificate.IsZero():
		return skip("the public URL has no TLS")
	case left < 0:
		return fail("renew the files of --tls-cert and --tls-key: the host reads them again", "it expired at %s", l.Certificate.Format(time.DateTime))
	case left < certificateSoon:
		return warn("renew it; the host renews one of --tls-domain, and vacancy logs says what fails", "it expires in %d days", int(left.Hours()/24))
	}
	return ok("it expires in %d days", int(left.Hours()/24))
}

func (l Local) agents() Check {
	var failing, idle []string
	fix := "vacancy logs --failed" + l.Flag
	for _, a := range l.Agents {
		switch {
		case a.NoWorker:
			idle = append(idle, a.Name)
		case a.Failure != "":
			failing = append(failing, a.Name+": "+a.Failure)
		}
	}
	stopped := func(a Agent) bool {
		_, address, ok := strings.Cut(a.Failure, "no server listens at ")
		address, _, _ = strings.Cut(address, " ")
		host, _, err := net.SplitHostPort(strings.TrimRight(address, ",;"))
		return ok && err == nil && outbound.IsThisMachine(host)
	}
	if i := slices.IndexFunc(l.Agents, stopped); i >= 0 {
		fix = "start the program of " + l.Agents[i].Name + ", such as with vacancy watch DIR"
	}
	switch {
	case len(l.Agents) == 0:
		return skip("no vacant has an agent of its own")
	case len(failing) > 0:
		return fail(fix, "%d of %d do not answer: %s", len(failing), len(l.Agents), strings.Join(failing, "; "))
	case len(idle) > 0:
		return warn("start a worker, such as with vacancy watch DIR --host URL", "no worker connected: %s", strings.Join(idle, ", "))
	}
	return ok("all %d answer", len(l.Agents))
}

func (l Local) calls() Check {
	if l.Failed > 0 {
		return warn("vacancy logs --failed"+l.Flag, "%d of %d failed since the host was started", l.Failed, l.Calls)
	}
	return ok("%d since the host was started, none failed", l.Calls)
}
