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

func (f functionStack) environment(in Input, d dataStack, spec functions.Function) *map[string]*string {
	turns, _ := cost.SplitWorkerInstances(in.Settings.Limits[functions.Worker.Name])
	values := map[string]*string{
		"VACANCY_ROWS": d.rows.TableName(), "VACANCY_DOCS": d.docs.TableName(), "VACANCY_BLOBS": d.blobs.BucketName(),
		"VACANCY_SEAL_KEY": d.sealKey.KeyArn(),
		"VACANCY_READS":    str(readRate(in.Settings)), "VACANCY_PAGE_READS": str(pageReadRate(in.Settings)), "VACANCY_BYTES": str(largeBodyRate(in.Settings, spec.Name)),
		"VACANCY_PUTS": str(formatRate(in.Settings.Limits.ObjectShare(cost.ObjectWrites), objectBurstSeconds)), "VACANCY_GETS": str(formatRate(in.Settings.Limits.ObjectShare(cost.ObjectReads), objectBurstSeconds)),
		"VACANCY_TASKS": f.queues[functions.TaskQueue].QueueUrl(), "VACANCY_PUSHES": f.queues[functions.PushQueue].QueueUrl(), "VACANCY_TURNS": str(strconv.Itoa(turns)),
		"VACANCY_URL": f.publicURL(in), "VACANCY_GATEWAY_URL": f.gatewayURL(in), "VACANCY_GATE": gateARN(f.stack, in),
		"VACANCY_THINK": functionARN(f.stack, in, functions.Think), "VACANCY_SEARCH": functionARN(f.stack, in, functions.Search), "VACANCY_ROWS_STREAM": d.rows.TableStreamArn(),
	}
	for f, url := range f.functionURLs {
		// The name of gateway's URL is already in use: see gatewayURL.
		if name := "VACANCY_" + strings.ToUpper(f.Name) + "_URL"; values[name] == nil {
			values[name] = url.Url()
		}
	}
	for name, text := range in.Settings.FunctionVariables {
		values[name] = str(text)
	}
	if d.hostKey != nil {
		values["VACANCY_HOST_KEY"] = d.hostKey.KeyArn()
	}
	if f.edgeSecret != nil {
		values["VACANCY_EDGE_SECRET"] = secretReference(f.edgeSecret, in.Settings.EdgeSecretVersion)
		if in.Settings.PreviousEdgeSecretVersion != "" {
			values["VACANCY_EDGE_SECRET_BEFORE"] = secretReference(f.edgeSecret, in.Settings.PreviousEdgeSecretVersion)
		}
	}
	// A function gets the variables that its row in the table of functions names, if they have a
	// value on this stage.
	env := map[string]*string{}
	for _, name := range append(setting.Variables(spec.Name, spec.URL), spec.Variables()...) {
		if v := values[name]; v != nil && *v != "" {
			env[name] = v
		}
	}
	return &env
}

// publicURL returns the URL of the host, or nil if it is not known yet. If the stage has an edge
// without a domain, `vacancy deploy` later passes the generated name of the edge to the host. If
// the stage has no edge, the host's URL is the Function URL of agent, which is unknown until agent
// has been created.
func (f functionStack) publicURL(in Input) *string {
	switch agent := f.functionURLs[functions.Agent]; {
	case in.Settings.Domain != "":
		return str("https://" + in.Settings.Domain)
	case in.Settings.HasEdge || agent == nil:
		return nil
	default:
		return agent.Url()
	}
}

// gatewayURL returns the URL of accounts and AGP. It returns nil if the public URL of the host also
// serves them. It also returns nil for the gateway itself, because the function is created before
// its URL.
func (f functionStack) gatewayURL(in Input) *string {
	gateway := f.functionURLs[functions.Gateway]
	if in.Settings.Domain != "" || in.Settings.HasEdge || gateway == nil {
		return nil
	}
	return gateway.Url()
}

// readRate returns the rate at which one instance may read the tables, as units-per-second:burst.
// The rate limits registry, search and graduate. It also limits gateway, for requests without a
// known key. All instances of these functions together get at most half of the tables' read limits,
// because calls need the rest. They may exceed that half if functions have no reserved concurrency.
func readRate(s settings.Settings) string {
	const burstSeconds = 4
	const registryFactor = 1.25 // an instance of registry may read a quarter more, for its revocations
	limits := s.Limits
	rowReaders := registryFactor*float64(limits[functions.Registry.Name]) + float64(limits[functions.Graduate.Name]) + float64(limits[functions.Gateway.Name])
	share := min(float64(limits[cost.DocsReads])/(rowReaders+float64(limits[functions.Search.Name])), float64(limits[cost.RowsReads])/rowReaders) / 2
	return formatRate(share, burstSeconds)
}

func pageReadRate(s settings.Settings) string {
	// All instances together may use a quarter of the read limit of docs.
	const burstSeconds = 4
	return formatRate(float64(s.Limits[cost.DocsReads])/4/float64(s.Limits[functions.Message.Name]), burstSeconds)
}

// largeBodyRate returns the rate at which an instance accepts large bodies from one address, as
// KB-per-second:burst. All instances together then use at most half of a table's write limit for
// bodies from that address. The table is docs for registry, and otherwise rows.
func largeBodyRate(s settings.Settings, function string) string {
	// The burst is enough for one body of the largest size at the lowest limits.
	const burstSeconds = 60
	writeLimit := s.Limits[cost.RowsWrites]
	if function == functions.Registry.Name {
		writeLimit = s.Limits[cost.DocsWrites]
	}
	return formatRate(float64(writeLimit)/2/float64(max(1, s.Limits[function])), burstSeconds)
}

// objectBurstSeconds is the burst of object reads and writes, in seconds at an instance's rate.
const objectBurstSeconds = 120

func formatRate(perSecond, burstSeconds float64) string {
	// Functions reject a rate below 0.001.
	perSecond = max(math.Floor(perSecond*1000), 1) / 1000
	return strconv.FormatFloat(perSecond, 'f', -1, 64) + ":" + strconv.Itoa(max(1, int(burstSeconds*perSecond)))
}
