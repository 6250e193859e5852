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

// environment is the function's environment variables, as far as this stage has
// them.
func (f functionStack) environment(in Input, d data, row functions.Function) *map[string]*string {
	turns, _ := cost.OfQueues(in.Settings.Limits[functions.Worker.Name])
	has := map[string]*string{
		"VACANCY_ROWS": d.rows.TableName(), "VACANCY_DOCS": d.docs.TableName(), "VACANCY_BLOBS": d.blobs.BucketName(),
		"VACANCY_SEAL_KEY": d.seal.KeyArn(),
		"VACANCY_READS":    str(reads(in.Settings)), "VACANCY_PAGE_READS": str(pageReads(in.Settings)), "VACANCY_BYTES": str(largeBodies(in.Settings, row.Name)),
		"VACANCY_PUTS": str(rate(in.Settings.Limits.ObjectShare(cost.ObjectWrites), savedObjects)), "VACANCY_GETS": str(rate(in.Settings.Limits.ObjectShare(cost.ObjectReads), savedObjects)),
		"VACANCY_TASKS": f.queues[functions.Tasks].QueueUrl(), "VACANCY_PUSHES": f.queues[functions.Pushes].QueueUrl(), "VACANCY_TURNS": str(strconv.Itoa(turns)),
		"VACANCY_URL": f.publicURL(in), "VACANCY_GATEWAY_URL": f.gatewayURL(in), "VACANCY_GATE": gateARN(f.stack, in),
		"VACANCY_THINK": functionARN(f.stack, in, functions.Think), "VACANCY_SEARCH": functionARN(f.stack, in, functions.Search), "VACANCY_ROWS_STREAM": d.rows.TableStreamArn(),
	}
	for f, url := range f.urls {
		if name := "VACANCY_" + strings.ToUpper(f.Name) + "_URL"; has[name] == nil { // VACANCY_GATEWAY_URL has a meaning of its own
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
	env := map[string]*string{}
	for _, name := range append(setting.Variables(row.Name, row.URL), row.Environment()...) {
		if v := has[name]; v != nil && *v != "" {
			env[name] = v
		}
	}
	return &env
}

// publicURL is the host's URL, if it is known before the edge exists: not the
// edge's own name, which `vacancy deploy` tells the host, and not to agent, whose URL it is
// without an edge.
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

// gatewayURL returns the URL of accounts and AGP. It returns nil if publicURL serves them, too, and
// for the gateway itself, whose URL does not exist while its stack is made.
func (f functionStack) gatewayURL(in Input) *string {
	gateway := f.urls[functions.Gateway]
	if in.Settings.Domain != "" || in.Settings.Edge || gateway == nil {
		return nil
	}
	return gateway.Url()
}

// reads returns the share of reads of one instance, as units-per-second:burst. Instances of
// registry, search and graduate have it, and gateway for requests without a known key. All shares
// together are at most half of the documents' ceiling and half of the rows' ceiling, because calls
// need the rest. The burst is four seconds of the share. Without reservations there may be more
// instances, which read more.
func reads(s settings.Settings) string {
	const saved = 4       // seconds of the instance's share
	const revoking = 1.25 // of registry: revocations have a quarter more
	l := s.Limits
	ofRows := revoking*float64(l[functions.Registry.Name]) + float64(l[functions.Graduate.Name]) + float64(l[functions.Gateway.Name])
	share := min(float64(l[cost.DocsReads])/(ofRows+float64(l[functions.Search.Name])), float64(l[cost.RowsReads])/ofRows) / 2
	return rate(share, saved)
}

// pageReads returns the share of reads that one instance of message spends on pages, such as cards.
// All shares together are a quarter of the documents' ceiling.
func pageReads(s settings.Settings) string {
	const saved = 4
	return rate(float64(s.Limits[cost.DocsReads])/4/float64(s.Limits[functions.Message.Name]), saved)
}

// largeBodies returns the KB of large bodies that an instance takes from one
// address. With it, all instances together write for that address at most half
// of a table's ceiling: the table of rows for message, the table of documents
// for registry.
func largeBodies(s settings.Settings, function string) string {
	const saved = 60 // for one body of the largest size with the least limits
	ceiling := s.Limits[cost.RowsWrites]
	if function == functions.Registry.Name {
		ceiling = s.Limits[cost.DocsWrites]
	}
	return rate(float64(ceiling)/2/float64(max(1, s.Limits[function])), saved)
}

// savedObjects are the seconds of an instance's share of objects that it may write or read at once.
const savedObjects = 120

// rate is a rate for the environment, with a burst of some seconds. Functions
// accept a thousandth at least.
func rate(perSecond, saved float64) string {
	perSecond = max(math.Floor(perSecond*1000), 1) / 1000
	return strconv.FormatFloat(perSecond, 'f', -1, 64) + ":" + strconv.Itoa(max(1, int(saved*perSecond)))
}
