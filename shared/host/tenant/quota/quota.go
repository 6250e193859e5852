// Package quota bounds what a tenant may store on a host.
//
// The operator's own vacants, which have no tenant, have no quotas. What a bound does not cover is
// limited by the rate of requests: the rows of calls and changes are never deleted.
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

// Name names a quota.
type Name string

// The quotas. The table says what each counts.
const (
	Vacants   Name = "vacants"
	Versions  Name = "versions"
	Megabytes Name = "megabytes"
	Keys      Name = "keys"
	Links     Name = "links"
)

// row is a row of the table of quotas.
type row struct {
	name  Name
	limit int64
	what  string // what a tenant may have
	helps string
}

var table = []row{
	{Vacants, 1000, "vacants, with children and reserved names", "delete vacants that are not used and use their names again"},
	{Versions, 10_000, "versions of the agent of a vacant, and of its price", "create another vacant"},
	{Megabytes, 1024, "megabytes of agents' versions and imported chains", "delete vacants that are not used"},
	{Keys, 1000, "keys that can be used", "revoke keys that are not used"},
	{Links, 1000, "links of callers", "end links that are not used"},
}

func rowOf(n Name) row {
	return table[slices.IndexFunc(table, func(r row) bool { return r.name == n })]
}

// maxLimit bounds a quota.
const maxLimit = 1_000_000_000

// Quotas are the operator's quotas, by NAME for every tenant and by TENANT/NAME for one. A quota
// that is absent has its default.
type Quotas map[string]int64

// Defaults returns the default of each quota.
func Defaults() Quotas {
	q := Quotas{}
	for _, r := range table {
		q[string(r.name)] = r.limit
	}
	return q
}

// Expected says what Parse accepts.
const Expected = "NAME=NUMBER,... such as vacants=500,acme/vacants=5000, of the quotas vacants, versions, megabytes, keys and links"

// Parse parses NAME=NUMBER,... TENANT/NAME=NUMBER is a quota of one tenant.
func Parse(text string) (Quotas, error) {
	q := Quotas{}
	for one := range strings.SplitSeq(text, ",") {
		if one == "" {
			continue
		}
		of, number, _ := strings.Cut(one, "=")
		owner, name, hasOwner := strings.Cut(of, "/")
		if !hasOwner {
			owner, name = "", of
		}
		limit, err := strconv.ParseInt(number, 10, 64)
		known := slices.ContainsFunc(table, func(r row) bool { return string(r.name) == name })
		if err != nil || limit < 0 || limit > maxLimit || !known || hasOwner && owner == "" || tenant.Check(owner) != nil {
			return nil, problem.Invalid("quotas", Expected, fmt.Sprintf("%.80q", one))
		}
		q[of] = limit
	}
	return q, nil
}

// String returns q as Parse reads it.
func (q Quotas) String() string {
	var all []string
	for _, of := range slices.Sorted(maps.Keys(q)) {
		all = append(all, of+"="+strconv.FormatInt(q[of], 10))
	}
	return strings.Join(all, ",")
}

// Of returns a quota of a tenant.
func (q Quotas) Of(tenant string, n Name) int64 {
	for _, of := range []string{tenant + "/" + string(n), string(n)} {
		if limit, ok := q[of]; ok {
			return limit
		}
	}
	return rowOf(n).limit
}

// Check returns an error if a tenant would have more than its quota.
func (q Quotas) Check(tenant string, n Name, count int64) error {
	limit := q.Of(tenant, n)
	if tenant == "" || count <= limit {
		return nil
	}
	r := rowOf(n)
	return problem.New(problem.QuotaReached, "quota %s: tenant %s may have at most %d %s; %s, or ask the operator of the host for a higher quota", n, tenant, limit, r.what, r.helps)
}

// Add adds a change of a tenant's count to tx: delta vacants, or delta bytes for Megabytes. If other
// changes use up the quota before the commit, the commit fails with an error for Explain. Add calls
// count for a tenant without a count; count may stop at the limit.
func (q Quotas) Add(ctx context.Context, tx *store.Tx, tenant string, n Name, delta int64, count func(ctx context.Context, limit int64) (int64, error)) error {
	if tenant == "" || delta == 0 {
		return nil
	}
	limit := q.Of(tenant, n)
	if n == Megabytes {
		limit <<= 20
	}
	key := UsedDocs.Key(tenant, string(n))
	d, err := tx.Doc(ctx, key)
	if err != nil {
		return err
	}
	used := d.Number
	if d.Version == 0 {
		if delta < 0 {
			return nil // the first addition counts
		}
		if used, err = count(ctx, limit); err != nil {
			return err
		}
	}
	if delta > 0 && used+delta > limit {
		return q.Check(tenant, n, math.MaxInt64)
	}
	if d.Version == 0 {
		UsedDocs.Put(tx, store.Doc{Key: key}, used+delta)
		return nil
	}
	add := store.Add{Key: key, Delta: delta, Min: math.MinInt64, Max: math.MaxInt64}
	if delta > 0 {
		add.Max = limit
	}
	tx.Add(add)
	return nil
}

// Explain returns the refusal that a bound of Add causes, and other errors unchanged.
func (q Quotas) Explain(err error) error {
	var bounds *store.BoundsError
	if !errors.As(err, &bounds) {
		return err
	}
	parts, ok := UsedDocs.Parts(bounds.Key)
	if !ok {
		return err
	}
	return q.Check(parts[0], Name(parts[1]), math.MaxInt64)
}
