package stacks

import (
	"math"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/infra/settings"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/setting"
)

func (f functionStack) environment(in Input, d data, row functions.Function) *map[string]*string {
	turns, _ := cost.SplitInstances(in.Settings.Limits[functions.Worker.Name])
	has := map[string]*string{
		"VACANCY_ROWS": d.rows.TableName(), "VACANCY_DOCS": d.docs.TableName(), "VACANCY_BLOBS": d.blobs.BucketName(),
		"VACANCY_SEAL_KEY": d.seal.KeyArn(),
		"VACANCY_READS":    str(readRate(in.Settings)), "VACANCY_PAGE_READS": str(pageReads(in.Settings)), "VACANCY_BYTES": str(largeBodies(in.Settings, row.Name)),
		"VACANCY_PUTS": str(rate(in.Settings.Limits.ObjectShare(cost.ObjectWrites), savedObjects)), "VACANCY_GETS": str(rate(in.Settings.Limits.ObjectShare(cost.ObjectReads), savedObjects)),
		"VACANCY_TASKS": f.queues[functions.Tasks].QueueUrl(), "VACANCY_PUSHES": f.queues[functions.Pushes].QueueUrl(), "VACANCY_TURNS": str(strconv.Itoa(turns)),
		"VACANCY_URL": f.publicURL(in), "VACANCY_GATEWAY_URL": f.gatewayURL(in), "VACANCY_GATE": gateARN(f.stack, in),
		"VACANCY_THINK": functionARN(f.stack, in, functions.Think), "VACANCY_SEARCH": functionARN(f.stack, in, functions.Search), "VACANCY_ROWS_STREAM": d.rows.TableStreamArn(),
	}
	for f, url := range f.urls {
		// VACANCY_GATEWAY_URL has another meaning.
		if name := "VACANCY_" + strings.ToUpper(f.Name) + "_URL"; has[name] == nil {
			has[name] = url.Url()
		}
	}
	for name, text := range in.Settings.Variables {
		has[name] = str(text)
	}
	if d.host != nil {
		has["VACANCY_HOST_KEY"] = d.host.KeyArn()
	}
	if f.secret != nil {
		has["VACANCY_EDGE_SECRET"] = secretText(f.secret, in.Settings.EdgeSecretVersion)
		if in.Settings.EdgeSecretBefore != "" {
			has["VACANCY_EDGE_SECRET_BEFORE"] = secretText(f.secret, in.Settings.EdgeSecretBefore)
		}
	}
	// A function gets the variables that its row in the table of functions names, if they have a
	// value on this stage.
	env := map[string]*string{}
	for _, name := range append(setting.Variables(row.Name, row.URL), row.Environment()...) {
		if v := has[name]; v != nil && *v != "" {
			env[name] = v
		}
	}
	return &env
}

// publicURL returns the URL of the host, or nil if it is not known yet. If the stage has an edge without a
// domain, `vacancy deploy` later passes the generated name of the edge to the host. If the stage has no
// edge, the host's URL is the Function URL of agent, which is unknown until agent has been created.
func (f functionStack) publicURL(in Input) *string {
	switch agent := f.urls[functions.Agent]; {
	case in.Settings.Domain != "":
		return str("https://" + in.Settings.Domain)
	case in.Settings.Edge || agent == nil:
		return nil
	default:
		return agent.Url()
	}
}

// gatewayURL returns the URL of accounts and AGP. It returns nil if the public URL of the host also
// serves them, and for the gateway itself, whose URL does not exist before the function.
func (f functionStack) gatewayURL(in Input) *string {
	gateway := f.urls[functions.Gateway]
	if in.Settings.Domain != "" || in.Settings.Edge || gateway == nil {
		return nil
	}
	return gateway.Url()
}

// readRate returns the rate, as units-per-second:burst, at which one instance may read the tables: an
// instance of registry, search or graduate, or of gateway for requests without a known key. These
// instances together get at most half of the read limits of both tables, because calls need the rest.
// If functions have no reserved concurrency, more instances may run, and together they read more.
func readRate(s settings.Settings) string {
	const saved = 4       // burst in seconds of the instance's share
	const revoking = 1.25 // factor for registry, whose revocations may read a quarter more
	l := s.Limits
	ofRows := revoking*float64(l[functions.Registry.Name]) + float64(l[functions.Graduate.Name]) + float64(l[functions.Gateway.Name])
	share := min(float64(l[cost.DocsReads])/(ofRows+float64(l[functions.Search.Name])), float64(l[cost.RowsReads])/ofRows) / 2
	return rate(share, saved)
}

func pageReads(s settings.Settings) string {
	// All instances together may use a quarter of the read limit of docs.
	const saved = 4
	return rate(float64(s.Limits[cost.DocsReads])/4/float64(s.Limits[functions.Message.Name]), saved)
}

// largeBodies returns the rate at which an instance accepts large bodies from one address, as
// KB-per-second:burst. All instances together then use at most half of a table's write limit for
// bodies from that address. The table is docs for registry, and otherwise rows.
func largeBodies(s settings.Settings, function string) string {
	// The burst is enough for one body of the largest size at the lowest limits.
	const saved = 60
	ceiling := s.Limits[cost.RowsWrites]
	if function == functions.Registry.Name {
		ceiling = s.Limits[cost.DocsWrites]
	}
	return rate(float64(ceiling)/2/float64(max(1, s.Limits[function])), saved)
}

// savedObjects is the burst of an instance's rate of objects, in seconds at that rate.
const savedObjects = 120

func rate(perSecond, saved float64) string {
	// Functions reject a rate below 0.001.
	perSecond = max(math.Floor(perSecond*1000), 1) / 1000
	return strconv.FormatFloat(perSecond, 'f', -1, 64) + ":" + strconv.Itoa(max(1, int(saved*perSecond)))
}
