package billing

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/tenant"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const KindAccount = "acct"

const DefaultShards = 4

type Account struct {
	ID     string `json:"account"` // 32 random bytes in hex
	Tenant string `json:"tenant"`
	Shards int    `json:"shards"`
	// CreditLine is included in the balance and can be spent.
	CreditLine money.Amount `json:"line"`
	// DailyCap limits the money that calls may hold in a UTC day. Zero means no limit.
	DailyCap  money.Amount `json:"cap"`
	Suspended bool         `json:"suspended"`
	// TaskLifetime is in seconds.
	TaskLifetime int64 `json:"task_lifetime,omitempty"`
	// Owed is the part of withdrawn payments that the balance could not cover.
	Owed money.Amount `json:"owed,omitempty"`
	// EndingTrees lists the revoked keys whose trees are being ended (tree.go).
	EndingTrees  []string  `json:"ending,omitempty"`
	LastPosition uint64    `json:"changes"` // position of the last row
	CreatedAt    time.Time `json:"created"`
}

type Change struct {
	Kind            ChangeKind   `json:"kind"`
	Amount          money.Amount `json:"amount,omitempty"`
	Owed            money.Amount `json:"owed,omitempty"`
	NewLimit        money.Amount `json:"value,omitempty"` // new line or cap
	Tenant          string       `json:"tenant,omitempty"`
	Shards          int          `json:"shards,omitempty"`
	Key             string       `json:"key,omitempty"`
	Name            string       `json:"name,omitempty"`
	Caller          string       `json:"caller,omitempty"`
	Maker           string       `json:"made_by,omitempty"` // Maker.MadeBy of a new key or link
	EndedKeys       []string     `json:"keys,omitempty"`
	EndedCallers    []string     `json:"callers,omitempty"`
	Claim           string       `json:"claim,omitempty"`
	Note            string       `json:"note,omitempty"`
	Payment         string       `json:"payment,omitempty"` // payment provider's id
	IdempotencyHash string       `json:"idempotency,omitempty"`
	Time            time.Time    `json:"at"`
}

type ChangeKind string

const (
	Opened   ChangeKind = "opened"
	Credited ChangeKind = "credit"
	// Clawback withdraws a payment. If the balance is too small, the account is suspended.
	Clawback        ChangeKind = "clawback"
	Reversed        ChangeKind = "reversal"
	Adjusted        ChangeKind = "adjustment"
	CreditLineSet   ChangeKind = "line"
	DailyCapSet     ChangeKind = "cap"
	Suspended       ChangeKind = "suspended"
	Resumed         ChangeKind = "resumed"
	KeyMade         ChangeKind = "key"
	KeyRevoked      ChangeKind = "key_revoked"
	Linked          ChangeKind = "link"
	Unlinked        ChangeKind = "unlink"
	TreeEnded       ChangeKind = "tree_ended"
	TaskLifetimeSet ChangeKind = "task_lifetime"
	IssuerAdded     ChangeKind = "issuer"
	IssuerRemoved   ChangeKind = "issuer_removed"
)

func DecodeChange(row store.Row) (Change, error) {
	c, err := changeCodec.Decode(store.Doc{Data: row.Data})
	if err != nil {
		return c, problem.Wrap(problem.Damaged, err, "row %d of an account is not readable", row.Position)
	}
	return c, nil
}

func AccountKey(id string) store.Key { return AccountDocs.Key(id) }

func BalanceKey(id string, shard int) store.Key { return BalanceDocs.Key(id, strconv.Itoa(shard)) }

func AccountStream(id string) (store.Stream, error) {
	raw, err := identity.ParseHex(id)
	if err != nil || len(raw) != identity.Size {
		return "", problem.Invalid("account", "64 hex digits", fmt.Sprintf("%.80q", id))
	}
	return store.StreamOf(KindAccount, identity.ID(raw)), nil
}

func isValidShardCount(n int) bool { return n == 1 || n == 4 || n == 16 }

// OpenAccount uses the default if shards is 0. If the tenant already has an account, the error is
// Conflict.
func (b *Billing) OpenAccount(ctx context.Context, tenantName string, shards int) (a Account, err error) {
	shards = cmp.Or(shards, DefaultShards)
	if !isValidShardCount(shards) {
		return a, problem.Invalid("shards", "1, 4 or 16", strconv.Itoa(shards))
	}
	if err := tenant.CheckNew(tenantName); err != nil {
		return a, err
	}
	if tenantName == "" {
		return a, problem.Invalid("tenant", "a name", "none")
	}
	var raw [32]byte
	if _, err := io.ReadFull(b.Rand, raw[:]); err != nil {
		return a, problem.Wrap(problem.Unavailable, err, "no randomness for an account")
	}
	a = Account{ID: hex.EncodeToString(raw[:]), Tenant: tenantName, Shards: shards, LastPosition: 1, CreatedAt: b.currentSecond()}
	err = b.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		existingID, d, err := TenantDocs.Get(ctx, tx, TenantDocs.Key(tenantName))
		if err != nil {
			return err
		}
		if d.Version > 0 && existingID != a.ID {
			return problem.New(problem.Conflict, "tenant %s has an account", tenantName)
		}
		TenantDocs.Put(tx, store.Doc{Key: d.Key}, a.ID)
		AccountDocs.Put(tx, store.Doc{Key: AccountKey(a.ID)}, a)
		return appendChange(tx, store.StreamOf(KindAccount, identity.ID(raw)), 1, &Change{Kind: Opened, Tenant: tenantName, Shards: shards, Time: a.CreatedAt})
	})
	return a, store.AsProblem(err)
}

func appendChange(tx *store.Tx, s store.Stream, position uint64, c *Change) error {
	data, err := changeCodec.Encode(*c)
	tx.Append(s, position, data)
	return err
}

func (b *Billing) FindAccount(ctx context.Context, tenantOrID string) (Account, error) {
	if len(tenantOrID) == 2*identity.Size {
		if _, err := identity.ParseHex(tenantOrID); err == nil {
			return b.Account(ctx, tenantOrID)
		}
	}
	if tenantOrID == "" || tenant.Check(tenantOrID) != nil {
		return Account{}, problem.Invalid("account", "a tenant or 64 hex digits", fmt.Sprintf("%.80q", tenantOrID))
	}
	id, d, err := TenantDocs.Get(ctx, b.Store, TenantDocs.Key(tenantOrID))
	if err != nil {
		return Account{}, store.AsProblem(err)
	}
	if d.Version == 0 {
		return Account{}, problem.New(problem.NotFound, "tenant %s has no account", tenantOrID)
	}
	return b.Account(ctx, id)
}

func (b *Billing) Account(ctx context.Context, id string) (Account, error) {
	return loadAccount(ctx, b.Store, id)
}

func loadAccount(ctx context.Context, reader store.Reader, accountID string) (Account, error) {
	a, d, err := AccountDocs.Get(ctx, reader, AccountKey(accountID))
	if err == nil && d.Version == 0 {
		err = problem.New(problem.NotFound, "no such account")
	}
	return a, store.AsProblem(err)
}

func (b *Billing) Accounts(ctx context.Context, cursor string, n int) (accounts []Account, next string, err error) {
	docs, next, err := b.Store.Docs(ctx, TenantDocs.Range(), n, cursor)
	if err != nil {
		return nil, "", store.AsProblem(err)
	}
	for _, d := range docs {
		a, err := b.Account(ctx, string(d.Data))
		if err != nil {
			return nil, "", err
		}
		accounts = append(accounts, a)
	}
	return accounts, next, nil
}

func (b *Billing) AllAccounts(ctx context.Context) iter.Seq2[Account, error] {
	return store.Flatten(store.AllPages(func(cursor string) ([]Account, string, error) { return b.Accounts(ctx, cursor, 100) }))
}

func (b *Billing) SumChanges(ctx context.Context, a *Account, amount func(Change) money.Amount) (total money.Amount, err error) {
	for position := uint64(1); position <= a.LastPosition; {
		changes, err := b.Changes(ctx, a.ID, position, int(min(a.LastPosition-position+1, store.MaxPage)))
		if err != nil {
			return 0, err
		}
		if len(changes) == 0 {
			return 0, problem.New(problem.Damaged, "account %s: change %d is missing", a.ID, position)
		}
		for _, c := range changes {
			total += amount(c)
		}
		position += uint64(len(changes))
	}
	return total, nil
}

// Balance includes the credit line of an account.
func (b *Billing) Balance(ctx context.Context, a *Account) (money.Amount, error) {
	shards, err := b.readShards(ctx, a)
	if err != nil {
		return 0, store.AsProblem(err)
	}
	return sumShards(shards), nil
}

func (b *Billing) readShards(ctx context.Context, a *Account) ([]store.Doc, error) {
	docs := make([]store.Doc, a.Shards)
	g, ctx := errgroup.WithContext(ctx)
	for i := range docs {
		g.Go(func() (err error) {
			docs[i], err = b.Store.Doc(ctx, BalanceKey(a.ID, i))
			return err
		})
	}
	return docs, g.Wait()
}

func sumShards(shards []store.Doc) (total money.Amount) {
	for _, d := range shards {
		total += money.Amount(d.Number)
	}
	return total
}

// changeAccount changes an account and appends the Change that decide returns. If the Change is
// zero, changeAccount commits only the writes that decide added to the transaction.
func (b *Billing) changeAccount(ctx context.Context, id string, decide func(context.Context, *store.Tx, *Account) (Change, error)) (a Account, err error) {
	stream, err := AccountStream(id)
	if err != nil {
		return a, err
	}
	ctx, cancel := store.WithDefaultTimeout(ctx)
	defer cancel()
	for try := 1; ; try++ {
		err = b.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			if a, err = loadAccount(ctx, tx, id); err != nil {
				return err
			}
			c, err := decide(ctx, tx, &a)
			if err != nil || c.Kind == "" {
				return err
			}
			c.Time = b.currentSecond()
			a.LastPosition++
			AccountDocs.Put(tx, store.Doc{Key: AccountKey(id)}, a)
			return appendChange(tx, stream, a.LastPosition, &c)
		})
		b.accountCache.invalidate(id)
		// Retry if a concurrent call has changed the shards.
		if !errors.As(err, new(*store.BoundsError)) || b.updater().Backoff(ctx, try) != nil {
			return a, store.AsProblem(err)
		}
	}
}

const maxNoteBytes = 512

func checkNote(note string) error {
	if len(note) > maxNoteBytes {
		return problem.Invalid("note", fmt.Sprintf("at most %d bytes", maxNoteBytes), strconv.Itoa(len(note)))
	}
	return nil
}

// Credit adds money to an account, once per idempotency key. The money first pays the account's
// debt. If the key was used for another amount, the error is IdempotencyConflict.
func (b *Billing) Credit(ctx context.Context, id string, amount money.Amount, idempotencyKey, note string) (a Account, replayed bool, err error) {
	if amount <= 0 || amount > money.Max {
		return a, false, problem.Invalid("amount", fmt.Sprintf("1 to %d micro-dollars", money.Max), strconv.FormatInt(int64(amount), 10))
	}
	a, replayed, err = b.changeBalanceOnce(ctx, id, Change{Kind: Credited, Amount: amount, Note: note}, idempotencyKey)
	return a, replayed, err
}

// Adjust changes a balance, once per idempotency key. It fails if the balance would become
// negative.
func (b *Billing) Adjust(ctx context.Context, id string, amount money.Amount, idempotencyKey, note string) (a Account, replayed bool, err error) {
	if amount == 0 || amount > money.Max || amount < -money.Max {
		return a, false, problem.Invalid("amount", fmt.Sprintf("%d to %d micro-dollars, not 0", -money.Max, money.Max), strconv.FormatInt(int64(amount), 10))
	}
	if note == "" {
		return a, false, problem.Invalid("note", "the reason for the adjustment", "none")
	}
	return b.changeBalanceOnce(ctx, id, Change{Kind: Adjusted, Amount: amount, Note: note}, idempotencyKey)
}

func (b *Billing) changeBalanceOnce(ctx context.Context, id string, c Change, idempotencyKey string) (a Account, replayed bool, err error) {
	if err := checkNote(c.Note); err != nil {
		return a, false, err
	}
	if idempotencyKey == "" || len(idempotencyKey) > 255 {
		return a, false, problem.Invalid("Idempotency-Key", "1 to 255 bytes", strconv.Itoa(len(idempotencyKey)))
	}
	c.IdempotencyHash = identity.Sum([]byte(idempotencyKey)).String()
	a, err = b.changeAccount(ctx, id, func(ctx context.Context, tx *store.Tx, a *Account) (Change, error) {
		replayed = false
		earlier, d, err := IdempotentChangeDocs.Get(ctx, tx, IdempotentChangeDocs.Key(id, c.IdempotencyHash))
		if err != nil {
			return Change{}, err
		}
		if d.Version > 0 {
			if earlier.Kind != c.Kind || earlier.Amount != c.Amount {
				return Change{}, problem.New(problem.IdempotencyConflict, "the idempotency key was used for a %s of %s", earlier.Kind, earlier.Amount)
			}
			replayed = true
			return Change{}, nil
		}
		IdempotentChangeDocs.Put(tx, store.Doc{Key: d.Key}, Change{Kind: c.Kind, Amount: c.Amount})
		if c.Kind == Credited {
			return b.creditAfterDebt(ctx, tx, a, c)
		}
		return c, b.addToBalance(ctx, tx, a, c.Amount)
	})
	return a, replayed, err
}

func (b *Billing) addToBalance(ctx context.Context, tx *store.Tx, a *Account, amount money.Amount) error {
	shards, err := b.readShards(ctx, a)
	if err != nil {
		return err
	}
	if amount >= 0 {
		part, rest := amount/money.Amount(a.Shards), amount%money.Amount(a.Shards)
		for i := range a.Shards {
			delta := part
			if i == 0 {
				delta += rest
			}
			if delta > 0 {
				tx.AddWrites(store.Add{Key: BalanceKey(a.ID, i), Delta: int64(delta), Max: math.MaxInt64 / 16})
			}
		}
		return nil
	}
	adds, missing := planDebits(a.ID, shards, -amount)
	if missing > 0 {
		return problem.New(problem.Conflict, "the balance is %s, which does not cover %s", sumShards(shards), -amount)
	}
	for _, add := range adds {
		tx.AddWrites(add)
	}
	return nil
}

// SetCreditLine fails if the account has spent more of the old line than the new line allows.
func (b *Billing) SetCreditLine(ctx context.Context, id string, line money.Amount, note string) (Account, error) {
	if line < 0 || line > money.Max {
		return Account{}, problem.Invalid("line", fmt.Sprintf("0 to %d micro-dollars", money.Max), strconv.FormatInt(int64(line), 10))
	}
	if err := checkNote(note); err != nil {
		return Account{}, err
	}
	return b.changeAccount(ctx, id, func(ctx context.Context, tx *store.Tx, a *Account) (Change, error) {
		delta := line - a.CreditLine
		if delta == 0 {
			return Change{}, nil
		}
		a.CreditLine = line
		return Change{Kind: CreditLineSet, Amount: delta, NewLimit: line, Note: note}, b.addToBalance(ctx, tx, a, delta)
	})
}

func (b *Billing) SetDailyCap(ctx context.Context, id string, limit money.Amount) (Account, error) {
	if err := checkAmount("cap", limit); err != nil {
		return Account{}, err
	}
	return b.changeAccount(ctx, id, func(_ context.Context, _ *store.Tx, a *Account) (Change, error) {
		if a.DailyCap == limit {
			return Change{}, nil
		}
		a.DailyCap = limit
		return Change{Kind: DailyCapSet, NewLimit: limit}, nil
	})
}

func (b *Billing) SetTaskLifetime(ctx context.Context, id string, seconds int64) (Account, error) {
	if seconds < 60 || seconds > 24*60*60 {
		return Account{}, problem.Invalid("seconds", "60 to 86400", strconv.FormatInt(seconds, 10))
	}
	return b.changeAccount(ctx, id, func(_ context.Context, _ *store.Tx, a *Account) (Change, error) {
		if a.TaskLifetime == seconds {
			return Change{}, nil
		}
		a.TaskLifetime = seconds
		return Change{Kind: TaskLifetimeSet, Note: (time.Duration(seconds) * time.Second).String()}, nil
	})
}

func (b *Billing) TaskLifetime(ctx context.Context, id string) (time.Duration, error) {
	a, err := b.recentAccount(ctx, id)
	return time.Duration(a.TaskLifetime) * time.Second, err
}

func checkAmount(field string, amount money.Amount) error {
	if amount < 0 || amount > money.Max {
		return problem.Invalid(field, fmt.Sprintf("0 to %d micro-dollars", money.Max), strconv.FormatInt(int64(amount), 10))
	}
	return nil
}

func (a *Account) checkActive() error {
	if a.Suspended {
		return problem.New(problem.AccountSuspended, "the account of %s is suspended", a.Tenant)
	}
	return nil
}

func (b *Billing) CheckAccountActive(ctx context.Context, id string) error {
	a, err := b.Account(ctx, id)
	if err != nil {
		return err
	}
	return a.checkActive()
}

// recentAccount returns an account that may be a second old.
func (b *Billing) recentAccount(ctx context.Context, id string) (Account, error) {
	return b.accountCache.getOrRead(id, b.Now(), func() (Account, error) { return b.Account(ctx, id) })
}

func (b *Billing) checkAccountActiveCached(ctx context.Context, id string) error {
	a, err := b.recentAccount(ctx, id)
	if err != nil {
		return err
	}
	return a.checkActive()
}

// SetSuspended suspends an account or resumes it. A suspended account cannot pay for new calls.
func (b *Billing) SetSuspended(ctx context.Context, id string, suspended bool, note string) (Account, error) {
	if err := checkNote(note); err != nil {
		return Account{}, err
	}
	return b.changeAccount(ctx, id, func(_ context.Context, _ *store.Tx, a *Account) (Change, error) {
		if a.Suspended == suspended {
			return Change{}, nil
		}
		a.Suspended = suspended
		kind := Resumed
		if suspended {
			kind = Suspended
		}
		return Change{Kind: kind, Note: note}, nil
	})
}

func (b *Billing) Changes(ctx context.Context, id string, firstPosition uint64, n int) ([]Change, error) {
	stream, err := AccountStream(id)
	if err != nil {
		return nil, err
	}
	rows, err := b.Store.Rows(ctx, stream, firstPosition, n, store.Ascending)
	if err != nil {
		return nil, store.AsProblem(err)
	}
	changes := make([]Change, len(rows))
	for i, row := range rows {
		if changes[i], err = DecodeChange(row); err != nil {
			return nil, err
		}
	}
	return changes, nil
}
