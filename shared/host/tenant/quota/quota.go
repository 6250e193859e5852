// Package quota limits the data that a tenant may store on a host. The operator's own vacants,
// which have no tenant, are not limited. Rows of calls are limited only by the rate of requests.
package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/tenant"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

type Name string

const (
	Vacants   Name = "vacants"
	Versions  Name = "versions"
	Megabytes Name = "megabytes"
	Keys      Name = "keys"
	Links     Name = "links"
)

type definition struct {
	name         Name
	defaultLimit int64
	objects      string
	advice       string
}

var definitions = []definition{
	{Vacants, 1000, "vacants, including children and reserved names", "delete unused vacants and reuse their names"},
	{Versions, 10_000, "versions of the agent or the price of a vacant", "create another vacant"},
	{Megabytes, 1024, "megabytes of agent versions and imported chains", "delete unused vacants"},
	{Keys, 1000, "active keys", "revoke unused keys"},
	{Links, 1000, "links of callers", "end unused links"},
}

func definitionOf(name Name) definition {
	return definitions[slices.IndexFunc(definitions, func(r definition) bool { return r.name == name })]
}

const maxLimit = 1_000_000_000

// Quotas maps NAME, or TENANT/NAME for one tenant, to a limit. Missing quotas have their default.
type Quotas map[string]int64

func Defaults() Quotas {
	q := Quotas{}
	for _, r := range definitions {
		q[string(r.name)] = r.defaultLimit
	}
	return q
}

const ParseFormat = "NAME=NUMBER,... such as vacants=500,acme/vacants=5000, of the quotas vacants, versions, megabytes, keys and links"

func Parse(text string) (Quotas, error) {
	q := Quotas{}
	for entry := range strings.SplitSeq(text, ",") {
		if entry == "" {
			continue
		}
		key, number, _ := strings.Cut(entry, "=")
		owner, name, hasOwner := strings.Cut(key, "/")
		if !hasOwner {
			owner, name = "", key
		}
		limit, err := strconv.ParseInt(number, 10, 64)
		isKnown := slices.ContainsFunc(definitions, func(r definition) bool { return string(r.name) == name })
		if err != nil || limit < 0 || limit > maxLimit || !isKnown || hasOwner && owner == "" || tenant.Check(owner) != nil {
			return nil, problem.Invalid("quotas", ParseFormat, fmt.Sprintf("%.80q", entry))
		}
		q[key] = limit
	}
	return q, nil
}

func (q Quotas) String() string {
	var entries []string
	for _, key := range slices.Sorted(maps.Keys(q)) {
		entries = append(entries, key+"="+strconv.FormatInt(q[key], 10))
	}
	return strings.Join(entries, ",")
}

func (q Quotas) Limit(tenant string, name Name) int64 {
	for _, key := range []string{tenant + "/" + string(name), string(name)} {
		if limit, ok := q[key]; ok {
			return limit
		}
	}
	return definitionOf(name).defaultLimit
}

func (q Quotas) Check(tenant string, name Name, count int64) error {
	limit := q.Limit(tenant, name)
	if tenant == "" || count <= limit {
		return nil
	}
	r := definitionOf(name)
	return problem.New(problem.QuotaReached, "quota %s: tenant %s may have at most %d %s; %s, or ask the operator of the host for a higher quota", name, tenant, limit, r.objects, r.advice)
}

// Add adds delta vacants, or bytes for Megabytes, to a tenant's count. If concurrent changes use up
// the quota, the commit fails with an error that ConvertError converts. If no count is stored yet,
// Add calls countExisting, which may stop at the limit.
func (q Quotas) Add(ctx context.Context, tx *store.Tx, tenant string, name Name, delta int64, countExisting func(ctx context.Context, limit int64) (int64, error)) error {
	if tenant == "" || delta == 0 {
		return nil
	}
	limit := q.Limit(tenant, name)
	if name == Megabytes {
		limit <<= 20
	}
	key := UsageDocs.Key(tenant, string(name))
	d, err := tx.Doc(ctx, key)
	if err != nil {
		return err
	}
	used := d.Number
	if d.Version == 0 {
		if delta < 0 {
			return nil // the first addition counts all existing objects
		}
		if used, err = countExisting(ctx, limit); err != nil {
			return err
		}
	}
	if delta > 0 && used+delta > limit {
		return q.Check(tenant, name, math.MaxInt64)
	}
	if d.Version == 0 {
		UsageDocs.Put(tx, store.Doc{Key: key}, used+delta)
		return nil
	}
	add := store.Add{Key: key, Delta: delta, Min: math.MinInt64, Max: math.MaxInt64}
	if delta > 0 {
		add.Max = limit
	}
	tx.AddWrites(add)
	return nil
}

// ConvertError converts the error of a commit that exceeds a quota to QuotaReached. It returns
// other errors unchanged.
func (q Quotas) ConvertError(err error) error {
	var bounds *store.BoundsError
	if !errors.As(err, &bounds) {
		return err
	}
	parts, ok := UsageDocs.Parts(bounds.Key)
	if !ok {
		return err
	}
	return q.Check(parts[0], Name(parts[1]), math.MaxInt64)
}
