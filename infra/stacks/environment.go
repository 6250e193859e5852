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
		// VACANCY_GATEWAY_URL may already have a value from gatewayURL.
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
	env := map[string]*string{}
	for _, name := range append(setting.Variables(spec.Name, spec.URL), spec.Variables()...) {
		if v := values[name]; v != nil && *v != "" {
			env[name] = v
		}
	}
	return &env
}

// publicURL returns the URL of the host, or nil if it is not known yet.
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
// serves them, or if the URL of gateway does not exist yet.
func (f functionStack) gatewayURL(in Input) *string {
	gateway := f.functionURLs[functions.Gateway]
	if in.Settings.Domain != "" || in.Settings.HasEdge || gateway == nil {
		return nil
	}
	return gateway.Url()
}

// readRate returns the rate at which one instance may read the tables, as units-per-second:burst.
// If functions have reserved concurrency, all instances of registry, search, graduate and gateway
// together get at most half of the read limits, because calls need the rest.
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
// KB-per-second:burst. All instances together then use at most half of a table's write limit
// for that address.
func largeBodyRate(s settings.Settings, function string) string {
	// The burst is enough for one body of the largest size at the lowest limits.
	const burstSeconds = 60
	writeLimit := s.Limits[cost.RowsWrites]
	if function == functions.Registry.Name {
		writeLimit = s.Limits[cost.DocsWrites]
	}
	return formatRate(float64(writeLimit)/2/float64(max(1, s.Limits[function])), burstSeconds)
}

const objectBurstSeconds = 120

func formatRate(perSecond, burstSeconds float64) string {
	// Functions reject a rate below 0.001.
	perSecond = max(math.Floor(perSecond*1000), 1) / 1000
	return strconv.FormatFloat(perSecond, 'f', -1, 64) + ":" + strconv.Itoa(max(1, int(burstSeconds*perSecond)))
}
