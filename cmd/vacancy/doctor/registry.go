package doctor

import "net/http"

// registry checks the registry: two handlers, the log, and the two functions
// behind them that nobody waits for.
func (f Facts) registry() []Check {
	return []Check{
		f.endpoint("registry", "registry", f.Visit.Registry), f.endpoint("search", "search", f.Visit.Search), f.log(),
		f.job("sealing", "checkpointer", "publications and revocations are not sealed"),
		f.job("search index", "indexer", "no new index is published, and searches read ever more changes"),
	}
}

// noURL is why nothing is known of the registry's handlers; "" if something is.
func (f Facts) noURL() string {
	switch {
	case f.Visit.Absent:
		return "needs a deployed stage"
	case f.Visit.Unregistered:
		return "the stage was deployed without a registry"
	}
	return ""
}

func (f Facts) endpoint(name, function string, a Answer) Check {
	if why := f.noURL(); why != "" {
		return none(name, "%s", why)
	}
	switch {
	case a.Err != nil:
		return fail(name, f.logs(function), "%s does not answer: %s", function, a.Err)
	case a.Status == http.StatusOK:
		return ok(name, "it answers")
	case a.Status == http.StatusForbidden:
		return fail(name, f.deploy(), "%s refuses CloudFront: their secrets differ", function)
	case a.Status == http.StatusTooManyRequests:
		return warn(name, "vacancy doctor --stage "+f.Stage+"    # in a minute", "%s answers 429: more requests than it takes", function)
	}
	return fail(name, f.logs(function), "%s answers %d", function, a.Status)
}

// log: the checkpointer's first run signs the empty log, so there is soon a
// checkpoint.
func (f Facts) log() Check {
	const name = "log"
	if why := f.noURL(); why != "" {
		return none(name, "%s", why)
	}
	switch a := f.Visit.Log; {
	case a.Err == nil && a.Status == http.StatusOK:
		return ok(name, "it has a checkpoint; vacancy log verify checks it")
	case a.Err == nil && a.Status == http.StatusNotFound:
		return warn(name, "vacancy invoke checkpointer events/checkpointer-schedule.json --stage "+f.Stage, "nothing is sealed yet; checkpointer runs every five minutes")
	case f.Visit.Registry.Err != nil || f.Visit.Registry.Status != http.StatusOK:
		return none(name, "needs the registry")
	case a.Err != nil:
		return fail(name, f.logs("registry"), "the log does not answer: %s", a.Err)
	default:
		return fail(name, f.logs("registry"), "the log answers %d", a.Status)
	}
}

// job judges a function by its last run.
func (f Facts) job(name, function, cost string) Check {
	if why := f.blind(); why != "" {
		return none(name, "%s", why)
	}
	switch j := f.Jobs[function]; {
	case j.Err != nil:
		return unread(name, j.Err)
	case j.Absent || j.Last.IsZero():
		return none(name, "%s has not run", function)
	case j.Verdict != "ok":
		return fail(name, f.logs(function), "%s failed at %s (%s): %s", function, j.Last.UTC().Format("2006-01-02T15:04:05Z"), j.Verdict, cost)
	default:
		return ok(name, "%s ran well at %s", function, j.Last.UTC().Format("2006-01-02T15:04:05Z"))
	}
}
