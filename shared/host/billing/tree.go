package billing

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/tenant/quota"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/store"
)

// A tree consists of a key, all keys that it or its descendants created, and the links that these
// keys created. RevokeKey ends a tree in several commits, because a tree may need more writes than
// a commit allows.
//
// The first commit revokes the key and adds it to Account.EndingTrees. From then on, the host
// refuses all keys and links of the tree, so the tree cannot grow. The last commit removes the key
// from EndingTrees when no process can still have a link of the tree in its cache. If the process
// dies before the last commit, the next RevokeKey or the sweeper (EndTrees) continues.

const MadeByOperator = "operator"

type Maker struct {
	// MadeBy is the id of a key, MadeByOperator, or "" in documents of earlier versions.
	MadeBy string `json:"made_by,omitempty"`
	// Ancestors contains the maker of the key MadeBy, the maker of that maker, and so on.
	Ancestors []string `json:"ancestors,omitempty"`
}

func makerOf(actor *Key) Maker {
	switch {
	case actor == nil:
		return Maker{MadeBy: MadeByOperator}
	case !actor.isMadeByKey():
		return Maker{MadeBy: actor.ID}
	}
	return Maker{MadeBy: actor.ID, Ancestors: append([]string{actor.MadeBy}, actor.Ancestors...)}
}

func (m *Maker) isMadeByKey() bool { return m.MadeBy != "" && m.MadeBy != MadeByOperator }

func (m *Maker) descendsFrom(key string) bool {
	return m.MadeBy == key || slices.Contains(m.Ancestors, key)
}

func (a *Account) isInEndingTree(m *Maker) bool {
	return slices.ContainsFunc(a.EndingTrees, m.descendsFrom)
}

func (a *Account) checkNotEnding(k *Key) error {
	if a.isInEndingTree(&k.Maker) {
		return problem.Wrap(problem.Unauthorized, ErrRevokedKey, "Authorization: the key %s… was revoked together with a key that created it", k.Prefix)
	}
	return nil
}

const (
	maxEndedKeys   = 1000
	maxKeysOfKey   = 100 // usable keys that one key created
	maxGenerations = 8
)

func (k *Key) endTime(now time.Time) time.Time {
	if k.RevokedAt.IsZero() && !k.Expires.IsZero() && !now.Before(k.Expires) {
		return k.Expires
	}
	return k.RevokedAt
}

// makeRoomForKey deletes an ended key if the account lists too many, but never a key whose id is
// still needed to end its tree.
func (b *Billing) makeRoomForKey(ctx context.Context, tx *store.Tx, a *Account, maker *Key) error {
	keys, err := b.listKeys(ctx, a.ID)
	if err != nil {
		return err
	}
	now := b.Now()
	var ended []listedKey
	var makers []string
	usableCount, madeByMaker := 0, 0
	for _, k := range keys {
		if !k.endTime(now).IsZero() {
			ended = append(ended, k)
			continue
		}
		usableCount++
		makers = append(append(makers, k.MadeBy), k.Ancestors...)
		if maker != nil && k.MadeBy == maker.ID {
			madeByMaker++
		}
	}
	if err := b.Quotas.Check(a.Tenant, quota.Keys, int64(usableCount+1)); err != nil {
		return err
	}
	switch {
	case madeByMaker >= maxKeysOfKey:
		return problem.New(problem.QuotaReached, "the key %s… has reached the limit of %d usable keys that it created: revoke unused keys, or use another key", maker.Prefix, maxKeysOfKey)
	case len(ended) < maxEndedKeys:
		return nil
	}
	links, err := b.Links(ctx, a.ID)
	if err != nil {
		return err
	}
	for _, l := range links {
		makers = append(append(makers, l.MadeBy), l.Ancestors...)
	}
	ended = slices.DeleteFunc(ended, func(k listedKey) bool { return slices.Contains(makers, k.ID) })
	if len(ended) == 0 {
		return nil
	}
	firstEnded := slices.MinFunc(ended, func(x, y listedKey) int { return x.endTime(now).Compare(y.endTime(now)) })
	for _, key := range []store.Key{KeyDocs.Key(a.ID, firstEnded.ID), SecretDocs.Key(firstEnded.SecretHash)} {
		if _, err := tx.Doc(ctx, key); err != nil {
			return err
		}
		tx.Delete(key)
	}
	return nil
}

type EndedKeysAndLinks struct {
	Keys  []Key  `json:"ended_keys,omitempty"`
	Links []Link `json:"ended_links,omitempty"`
	// KeysWithoutMaker and LinksWithoutMaker count usable keys and links whose maker was not
	// recorded. They do not end with another key.
	KeysWithoutMaker  int `json:"keys_without_maker,omitempty"`
	LinksWithoutMaker int `json:"links_without_maker,omitempty"`
}

type Revocation struct {
	Key
	EndedKeysAndLinks
}

// RevokeKey revokes a key and ends its tree. actor is the revoking key, or nil for the operator. A
// repeated call completes a revocation that a crash interrupted.
func (b *Billing) RevokeKey(ctx context.Context, actor *Key, account, id string) (r Revocation, err error) {
	var startedEnding bool
	if r.Key, startedEnding, err = b.markRevoked(ctx, actor, account, id, true); err != nil {
		return r, err
	}
	if r.EndedKeysAndLinks, err = b.endAccountTrees(ctx, account, id, startedEnding); err != nil {
		const incomplete = "the key %s… and all keys and links that it created are revoked, but not all of them are marked as ended yet; the host continues within minutes, or run the same command again: %s"
		return r, problem.Wrap(problem.AsError(store.AsProblem(err)).Kind, err, incomplete, r.Prefix, problem.AsError(store.AsProblem(err)).Text())
	}
	// actor may not be allowed to see keys of other trees.
	r.Keys = slices.DeleteFunc(r.Keys, func(k Key) bool { return !k.descendsFrom(id) })
	r.Links = slices.DeleteFunc(r.Links, func(l Link) bool { return !l.descendsFrom(id) })
	keys, err := b.listKeys(ctx, account)
	if err != nil {
		return r, err
	}
	links, err := b.Links(ctx, account)
	for _, k := range keys {
		if k.MadeBy == "" && k.endTime(b.Now()).IsZero() && actor.CanSee(&k.Key) {
			r.KeysWithoutMaker++
		}
	}
	for _, l := range links {
		if l.MadeBy == "" && (actor == nil || !actor.Test) {
			r.LinksWithoutMaker++
		}
	}
	return r, err
}

func (b *Billing) RevokeSingleKey(ctx context.Context, actor *Key, account, id string) (Key, error) {
	k, _, err := b.markRevoked(ctx, actor, account, id, false)
	return k, err
}

func (b *Billing) markRevoked(ctx context.Context, actor *Key, account, id string, endsTree bool) (k Key, startedEnding bool, err error) {
	if id == "" || strings.Trim(id, alphabet) != "" || len(id) > 64 {
		return k, false, problem.New(problem.NotFound, "no such key")
	}
	_, err = b.changeAccount(ctx, account, func(ctx context.Context, tx *store.Tx, a *Account) (c Change, err error) {
		s, listedDoc, err := KeyDocs.Get(ctx, tx, KeyDocs.Key(account, id))
		if err != nil {
			return c, err
		}
		if listedDoc.Version == 0 || !actor.CanSee(&s.Key) {
			return c, problem.New(problem.NotFound, "no such key")
		}
		if err := actor.checkCanEnd(&s.Maker); err != nil {
			return c, err
		}
		if s.RevokedAt.IsZero() {
			if err := b.endKey(ctx, tx, &s); err != nil {
				return c, err
			}
			c = Change{Kind: KeyRevoked, Key: id, Name: s.Name}
		}
		k, startedEnding = s.Key, endsTree && !slices.Contains(a.EndingTrees, id)
		if !startedEnding {
			return c, nil
		}
		a.EndingTrees = append(a.EndingTrees, id)
		endingDoc, err := tx.Doc(ctx, EndingDocs.Key(account))
		if err == nil && endingDoc.Version == 0 {
			EndingDocs.Put(tx, endingDoc, account)
		}
		if c.Kind == "" { // otherwise changeAccount writes the account
			AccountDocs.Put(tx, store.Doc{Key: AccountKey(account)}, *a)
		}
		return c, err
	})
	return k, startedEnding, err
}

func (b *Billing) endKey(ctx context.Context, tx *store.Tx, s *listedKey) error {
	secret, err := tx.Doc(ctx, SecretDocs.Key(s.SecretHash))
	if err != nil {
		return err
	}
	s.RevokedAt = b.currentSecond()
	SecretDocs.Put(tx, store.Doc{Key: secret.Key}, s.Key)
	KeyDocs.Put(tx, store.Doc{Key: KeyDocs.Key(s.Account, s.ID)}, *s)
	return nil
}

func (b *Billing) EndTrees(ctx context.Context) (n int, err error) {
	var errs []error
	for account, err := range EndingDocs.Each(ctx, b.Store, EndingDocs.Range()) {
		if err != nil {
			errs = append(errs, store.AsProblem(err))
			break
		}
		e, err := b.endAccountTrees(ctx, account, "", false)
		n += len(e.Keys) + len(e.Links)
		errs = append(errs, err)
	}
	return n, errors.Join(errs...)
}

// endAccountTrees completes all revocations of an account. startedEnding means that the caller has
// just started the revocation of the key id. Otherwise, another process may have ended links, and
// endTree waits until link caches have expired.
func (b *Billing) endAccountTrees(ctx context.Context, account, id string, startedEnding bool) (ended EndedKeysAndLinks, err error) {
	ctx, cancel := store.WithDefaultTimeout(ctx)
	defer cancel()
	a, err := b.Account(ctx, account)
	for _, root := range a.EndingTrees {
		if err == nil {
			err = b.endTree(ctx, account, root, startedEnding && root == id, &ended)
		}
	}
	return ended, err
}

// maxEndedPerCommit allows two writes for each key or link, and two for the account and its row.
const maxEndedPerCommit = (store.MaxWrites - 2) / 2

func (b *Billing) endTree(ctx context.Context, account, root string, startedEnding bool, ended *EndedKeysAndLinks) error {
	keys, err := b.listKeys(ctx, account)
	if err != nil {
		return err
	}
	links, err := b.Links(ctx, account)
	if err != nil {
		return err
	}
	// The lists are complete, because a tree in Account.EndingTrees does not grow.
	keys = slices.DeleteFunc(keys, func(k listedKey) bool { return !k.RevokedAt.IsZero() || !k.descendsFrom(root) })
	links = slices.DeleteFunc(links, func(l Link) bool { return !l.descendsFrom(root) })
	for batch := range slices.Chunk(keys, maxEndedPerCommit) {
		if err := b.endBatch(ctx, account, root, batch, nil, ended); err != nil {
			return err
		}
	}
	for batch := range slices.Chunk(links, maxEndedPerCommit) {
		if err := b.endBatch(ctx, account, root, nil, batch, ended); err != nil {
			return err
		}
	}
	if len(links) > 0 || !startedEnding { // other processes may have cached links that ended
		wait := b.Wait
		if wait == nil {
			wait = retry.Sleep
		}
		if err := wait(ctx, defaultCacheTime); err != nil {
			return err
		}
	}
	_, err = b.changeAccount(ctx, account, func(ctx context.Context, tx *store.Tx, a *Account) (c Change, err error) {
		i := slices.Index(a.EndingTrees, root)
		if i < 0 { // another process has completed the revocation
			return c, nil
		}
		if a.EndingTrees = slices.Delete(a.EndingTrees, i, i+1); len(a.EndingTrees) == 0 {
			if _, err := tx.Doc(ctx, EndingDocs.Key(account)); err != nil {
				return c, err
			}
			tx.Delete(EndingDocs.Key(account))
		}
		AccountDocs.Put(tx, store.Doc{Key: AccountKey(account)}, *a)
		return c, nil
	})
	return err
}

func (b *Billing) endBatch(ctx context.Context, account, root string, keys []listedKey, links []Link, ended *EndedKeysAndLinks) error {
	var batch EndedKeysAndLinks
	_, err := b.changeAccount(ctx, account, func(ctx context.Context, tx *store.Tx, _ *Account) (Change, error) {
		c := Change{Key: root}
		batch = EndedKeysAndLinks{}
		for _, k := range keys {
			s, listedDoc, err := KeyDocs.Get(ctx, tx, KeyDocs.Key(account, k.ID))
			if err != nil {
				return c, err
			}
			if listedDoc.Version == 0 || !s.RevokedAt.IsZero() {
				continue
			}
			if err := b.endKey(ctx, tx, &s); err != nil {
				return c, err
			}
			c.Kind, c.EndedKeys, batch.Keys = TreeEnded, append(c.EndedKeys, s.ID), append(batch.Keys, s.Key)
		}
		for _, l := range links {
			s, _, err := LinkDocs.Get(ctx, tx, linkKey(l.Caller))
			if err != nil {
				return c, err
			}
			// Another key may have linked the caller since then.
			if s.Ended || s.Account != account || !s.descendsFrom(root) {
				continue
			}
			if err := endLink(ctx, tx, s); err != nil {
				return c, err
			}
			c.Kind, c.EndedCallers, batch.Links = TreeEnded, append(c.EndedCallers, s.Caller.String()), append(batch.Links, s.Link)
		}
		return c, nil
	})
	for _, l := range links {
		b.linkCache.invalidate(l.Caller)
	}
	if err == nil {
		ended.Keys, ended.Links = append(ended.Keys, batch.Keys...), append(ended.Links, batch.Links...)
	}
	return err
}
