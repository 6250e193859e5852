package billing

import (
	"context"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

const (
	requestsPerSecond = 20
	// maxAgentsPerMinute keeps the document of a key's use below a kilobyte.
	maxAgentsPerMinute = 32
)

// keyUse is changed by each AGP request of a key.
type keyUse struct {
	Day         string    `json:"day"`
	Count       int64     `json:"count"`
	RateTokens  float64   `json:"tokens"`
	TokensAt    time.Time `json:"at"`
	LastUsed    time.Time `json:"last"`
	Minute      int64     `json:"minute"`
	AgentHashes []string  `json:"agents,omitempty"`
}

func hashAgent(agent string) string {
	h := fnv.New64a()
	h.Write([]byte(agent))
	return strconv.FormatUint(h.Sum64(), 36)
}

func freeUseKey(k *Key) store.Key {
	if k.Test {
		return FreeUseDocs.Key(k.Account, testInfix)
	}
	return FreeUseDocs.Key(k.Account, "")
}

func (k *Key) hasSharedQuota() bool { return k.Tier == Free && k.Quota == 0 }

func (b *Billing) loadUse(ctx context.Context, reader store.Reader, key string) (keyUse, error) {
	u, _, err := KeyUseDocs.Get(ctx, reader, KeyUseDocs.Key(key))
	return u, err
}

// loadQuotaUse returns the use of a key. If the key shares its quota, Count is the account's count.
func (b *Billing) loadQuotaUse(ctx context.Context, reader store.Reader, k *Key) (keyUse, error) {
	u, err := b.loadUse(ctx, reader, k.ID)
	if err != nil || !k.hasSharedQuota() {
		return u, err
	}
	day, d, err := FreeUseDocs.Get(ctx, reader, freeUseKey(k))
	u.Day, u.Count = day, d.Number
	return u, err
}

type Allowance struct {
	Limit, Remaining int64 // per UTC day; a Limit of zero means no limit
	Reset            time.Time
}

type QuotaError struct {
	Allowance
	RetryAfter time.Duration

	isDailyQuota bool // the quota of the day is exceeded, not the rate
}

func (e *QuotaError) Error() string { return e.problem().Text() }

func (e *QuotaError) Unwrap() error { return e.problem() }

func (e *QuotaError) problem() *problem.Error {
	if e.isDailyQuota {
		return problem.New(problem.TooManyRequests, "the limit of %d requests a day for a key is reached (with tier free, all keys of an account share one limit); try again after 00:00 UTC", e.Limit)
	}
	return problem.New(problem.TooManyRequests, "the limit of %d requests a second for a key is reached", requestsPerSecond)
}

func (b *Billing) CheckQuota(ctx context.Context, k *Key) (Allowance, error) {
	u, err := b.loadQuotaUse(ctx, b.Store, k)
	if err != nil {
		return Allowance{}, store.AsProblem(err)
	}
	return b.countRequest(&u, k, "")
}

// CountUse counts an answered request of a key. If concurrent requests have used the quota, the
// error is a *QuotaError.
func (b *Billing) CountUse(ctx context.Context, tx *store.Tx, k *Key, agent string) (allowance Allowance, isFirstOfMinute bool, err error) {
	u, err := b.loadQuotaUse(ctx, tx, k)
	if err != nil {
		return allowance, false, err
	}
	previousAgents := u.AgentHashes
	isSameMinute := u.Minute == minuteOf(b.Now())
	if allowance, err = b.countRequest(&u, k, agent); err != nil {
		return allowance, false, err
	}
	KeyUseDocs.Put(tx, store.Doc{Key: KeyUseDocs.Key(k.ID)}, u)
	if k.hasSharedQuota() {
		FreeUseDocs.Put(tx, store.Doc{Key: freeUseKey(k), Number: u.Count}, u.Day)
	}
	return allowance, !isSameMinute || !slices.Contains(previousAgents, hashAgent(agent)), nil
}

func (b *Billing) countRequest(u *keyUse, k *Key, agent string) (a Allowance, err error) {
	now := b.Now().UTC()
	if day := now.Format(time.DateOnly); u.Day != day {
		u.Day, u.Count = day, 0
	}
	a = Allowance{Limit: k.DayQuota(), Reset: now.Truncate(24 * time.Hour).Add(24 * time.Hour)}
	if a.Limit > 0 {
		if a.Remaining = a.Limit - u.Count - 1; a.Remaining < 0 {
			a.Remaining = 0
			return a, &QuotaError{Allowance: a, RetryAfter: a.Reset.Sub(now), isDailyQuota: true}
		}
	}
	rateTokens := float64(requestsPerSecond)
	// A clock that was set back must not add tokens.
	if !u.TokensAt.IsZero() {
		rateTokens = min(requestsPerSecond, u.RateTokens+requestsPerSecond*max(now.Sub(u.TokensAt).Seconds(), 0))
	}
	if rateTokens < 1 {
		return a, &QuotaError{Allowance: a, RetryAfter: time.Second}
	}
	u.Count, u.RateTokens, u.TokensAt, u.LastUsed = u.Count+1, rateTokens-1, now, now.Truncate(time.Second)
	if m := minuteOf(now); u.Minute != m {
		u.Minute, u.AgentHashes = m, nil
	}
	if m := hashAgent(agent); !slices.Contains(u.AgentHashes, m) && len(u.AgentHashes) < maxAgentsPerMinute {
		u.AgentHashes = append(u.AgentHashes, m)
	}
	return a, nil
}

func (b *Billing) AgentSeenWrite(agent string) store.Write {
	now := b.Now().UTC()
	return store.Add{Key: ActiveAgentDocs.Key(formatMinute(minuteOf(now)), agent), Delta: 1, Max: 1 << 62, Expires: now.Truncate(time.Second).Add(10 * time.Minute)}
}

const MaxActive = 10_000

func formatMinute(minute int64) string { return strconv.FormatInt(minute, 10) }

func (b *Billing) CountActiveAgents(ctx context.Context) (int, error) {
	seen := map[string]bool{}
	for minute, last := minuteOf(b.Now()), minuteOf(b.Now())-5; minute > last; minute-- {
		for d, err := range store.Documents(ctx, b.Store, ActiveAgentDocs.Range(formatMinute(minute))) {
			if err != nil {
				return 0, store.AsProblem(err)
			}
			if seen[d.Key.Sort] = true; len(seen) == MaxActive {
				return MaxActive, nil
			}
		}
	}
	return len(seen), nil
}
