package billing_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var every = []billing.Scope{billing.ScopeCall, billing.ScopeRead, billing.ScopeManage}

// madeKey is a key with its secret.
type madeKey struct {
	billing.Key
	secret string
}

// makes returns a key that another key makes, or the operator if it is nil.
func (w *world) makes(by *madeKey, account string) *madeKey {
	w.Helper()
	var maker *billing.Key
	if by != nil {
		maker = &by.Key
	}
	k, secret, err := w.billing.MakeKeyBy(context.Background(), maker, account, billing.KeyOptions{Scopes: every})
	w.must(err)
	return &madeKey{k, secret}
}

// links returns a caller that a key links to its account.
func (w *world) links(by *madeKey) *caller {
	w.Helper()
	c := w.caller()
	_, err := w.billing.LinkBy(context.Background(), &by.Key, by.Account, c.claim(by.Account, 0))
	w.must(err)
	return c
}

// identify authenticates a request with a key.
func (w *world) identify(secret string) error {
	r := httptest.NewRequest("POST", "/", nil)
	r.Header.Set("Authorization", "Bearer "+secret)
	_, err := w.billing.Identify(context.Background(), r)
	return err
}

// wantUsable requires that a key is accepted, or refused as revoked.
func (w *world) wantUsable(what string, k *madeKey, want bool) {
	w.Helper()
	if err := w.identify(k.secret); want && err != nil || !want && (!errors.Is(err, billing.ErrRevokedKey) || !problem.Is(err, problem.Unauthorized)) {
		w.Errorf("%s: %v, want that it can be used: %t", what, err, want)
	}
}

// wantPays requires that an account pays for a caller's next call, or that the call is refused
// as one without a link.
func (w *world) wantPays(what string, c *caller, want bool) {
	w.Helper()
	out := c.say(w.host(), "hi")
	if want && out.Problem != nil || !want && !problem.Is(out.Problem, problem.PaymentRequired) {
		w.Errorf("%s: %v, want that the account pays: %t", what, out.Problem, want)
	}
}

// wantComplete requires that the account and the sweeper have nothing left to end.
func (w *world) wantComplete(account string) {
	w.Helper()
	a, err := w.billing.Account(context.Background(), account)
	w.must(err)
	docs, _, err := w.store.Docs(context.Background(), billing.EndingDocs.Range(), 10, "")
	w.must(err)
	if len(a.EndingTrees)+len(docs) > 0 {
		w.Errorf("the account still ends %v, the sweeper %d accounts", a.EndingTrees, len(docs))
	}
}

func ids(keys []billing.Key) (all []string) {
	for _, k := range keys {
		all = append(all, k.ID)
	}
	slices.Sort(all)
	return all
}

func callers(links []billing.Link) (all []string) {
	for _, l := range links {
		all = append(all, l.Caller.String())
	}
	slices.Sort(all)
	return all
}

func sorted(all ...string) []string {
	slices.Sort(all)
	return all
}

// Keys, links and the changes of the account name their maker. Revoking a key ends its tree and
// nothing else.
func TestARevokedKeyEndsWhatItMade(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, money.Dollar)
	root, other := w.makes(nil, a.ID), w.makes(nil, a.ID)
	child := w.makes(root, a.ID)
	grandchild := w.makes(child, a.ID)
	ofRoot, ofGrandchild, ofOther, ofOperator := w.links(root), w.links(grandchild), w.links(other), w.linked(a, 0)
	if root.MadeBy != billing.MadeByOperator || child.MadeBy != root.ID || grandchild.MadeBy != child.ID || fmt.Sprint(grandchild.Ancestors) != fmt.Sprint([]string{root.ID}) {
		t.Errorf("made by %q, %q and %q of %v", root.MadeBy, child.MadeBy, grandchild.MadeBy, grandchild.Ancestors)
	}
	links, err := w.billing.Links(t.Context(), a.ID)
	w.must(err)
	for _, l := range links {
		want := map[identity.ID]string{ofRoot.key.ID(): root.ID, ofGrandchild.key.ID(): grandchild.ID, ofOther.key.ID(): other.ID, ofOperator.key.ID(): billing.MadeByOperator}[l.Caller]
		if l.MadeBy != want {
			t.Errorf("a link is made by %q, want %q", l.MadeBy, want)
		}
	}
	changes, err := w.billing.Changes(t.Context(), a.ID, 1, 100)
	w.must(err)
	for _, c := range changes {
		made := c.Kind == billing.KeyMade || c.Kind == billing.Linked
		if made != (c.Maker != "") || c.Key == grandchild.ID && c.Maker != child.ID {
			t.Errorf("the change %+v is made by %q", c, c.Maker)
		}
	}
	for _, c := range []*caller{ofRoot, ofGrandchild, ofOther, ofOperator} {
		w.wantPays("a link", c, true)
	}
	r, err := w.billing.RevokeKey(t.Context(), nil, a.ID, root.ID)
	w.must(err)
	if r.ID != root.ID || r.Key.RevokedAt.IsZero() || !slices.Equal(ids(r.EndedKeysAndLinks.Keys), sorted(child.ID, grandchild.ID)) ||
		!slices.Equal(callers(r.Links), sorted(ofRoot.key.ID().String(), ofGrandchild.key.ID().String())) || r.KeysWithoutMaker+r.LinksWithoutMaker > 0 {
		t.Errorf("RevokeKey() = %+v", r)
	}
	changes, err = w.billing.Changes(t.Context(), a.ID, uint64(len(changes))+1, 100)
	w.must(err)
	if len(changes) != 3 || changes[0].Kind != billing.KeyRevoked || changes[1].Kind != billing.TreeEnded || changes[1].Key != root.ID || len(changes[1].EndedKeys) != 2 || len(changes[2].EndedCallers) != 2 {
		t.Errorf("the account changes by %+v", changes)
	}
	w.wantUsable("the key", root, false)
	w.wantUsable("the key that it made", child, false)
	w.wantUsable("the key that this one made", grandchild, false)
	w.wantUsable("another key", other, true)
	w.wantPays("its link", ofRoot, false)
	w.wantPays("the link of the last key", ofGrandchild, false)
	w.wantPays("a link of another key", ofOther, true)
	w.wantPays("a link of the operator", ofOperator, true)
	w.wantComplete(a.ID)
}

// RevokeSingleKey leaves the tree of a key. It ends when the key, or a key above it, is revoked with its
// tree.
func TestRevokeOnlyLeavesTheTree(t *testing.T) {
	for _, by := range []int{0, 1} {
		w := newWorld(t)
		a := w.account("acme", 1, money.Dollar)
		root := w.makes(nil, a.ID)
		keys := []*madeKey{root, w.makes(root, a.ID)}
		last := w.makes(keys[1], a.ID)
		c := w.links(keys[1])
		_, err := w.billing.RevokeSingleKey(t.Context(), nil, a.ID, keys[1].ID)
		w.must(err)
		w.wantUsable("the key", keys[1], false)
		w.wantUsable("the key that it made", last, true)
		w.wantPays("its link", c, true)
		r, err := w.billing.RevokeKey(t.Context(), nil, a.ID, keys[by].ID)
		w.must(err)
		if !slices.Equal(ids(r.EndedKeysAndLinks.Keys), sorted(last.ID)) || len(r.Links) != 1 {
			t.Errorf("key %d ends %v and %v", by, ids(r.EndedKeysAndLinks.Keys), r.Links)
		}
		w.wantUsable("the key that it made, afterwards", last, false)
		w.wantPays("its link, afterwards", c, false)
		w.wantComplete(a.ID)
	}
}

// without stores a document as versions did that recorded no maker.
func (w *world) without(k store.Key) {
	w.Helper()
	d, err := w.store.Doc(context.Background(), k)
	w.must(err)
	var all map[string]any
	w.must(json.Unmarshal(d.Data, &all))
	delete(all, "made_by")
	delete(all, "ancestors")
	data, err := json.Marshal(all)
	w.must(err)
	w.must(w.store.Commit(context.Background(), store.Put{Key: k, IfVersion: d.Version, WriteID: store.WriteID{9}, Data: data}))
}

// Keys and links of earlier versions end only by their own ids. What such a key makes now is of
// its tree.
func TestWithoutARecordedMakerAKeyEndsByItsID(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, money.Dollar)
	root := w.makes(nil, a.ID)
	old, c := w.makes(root, a.ID), w.links(root)
	listed, _, err := w.store.Docs(t.Context(), billing.KeyDocs.Range(a.ID), 10, "")
	w.must(err)
	for _, d := range listed {
		if strings.HasSuffix(d.Key.Sort, old.ID) {
			var hash struct{ Hash string }
			w.must(json.Unmarshal(d.Data, &hash))
			w.without(d.Key)
			w.without(billing.SecretDocs.Key(hash.Hash))
		}
	}
	w.without(billing.LinkDocs.Key(c.key.ID().String()))
	w.without(billing.LinkedDocs.Key(a.ID, c.key.ID().String()))
	r, err := w.billing.RevokeKey(t.Context(), nil, a.ID, root.ID)
	w.must(err)
	if len(r.EndedKeysAndLinks.Keys)+len(r.Links) != 0 || r.KeysWithoutMaker != 1 || r.LinksWithoutMaker != 1 {
		t.Errorf("RevokeKey() = %+v, want that one key and one link have no recorded maker", r)
	}
	// A test key is not told of live keys and links.
	options := billing.KeyOptions{Test: true, Scopes: every}
	tester, _, err := w.billing.MakeKey(t.Context(), a.ID, options)
	w.must(err)
	tested, _, err := w.billing.MakeKeyBy(t.Context(), &tester, a.ID, options)
	w.must(err)
	if r, err := w.billing.RevokeKey(t.Context(), &tester, a.ID, tested.ID); err != nil || r.KeysWithoutMaker != 0 || r.LinksWithoutMaker != 0 {
		t.Errorf("RevokeKey() by a test key = %+v, %v, want no count of live keys and links", r, err)
	}
	w.wantUsable("the old key", old, true)
	w.wantPays("the old link", c, true)
	old.Maker = billing.Maker{}
	child := w.makes(old, a.ID)
	if r, err = w.billing.RevokeKey(t.Context(), nil, a.ID, old.ID); err != nil || !slices.Equal(ids(r.EndedKeysAndLinks.Keys), sorted(child.ID)) || r.KeysWithoutMaker != 0 || r.LinksWithoutMaker != 1 {
		t.Errorf("RevokeKey() of the old key = %+v, %v", r, err)
	}
	w.must(w.billing.Unlink(t.Context(), nil, a.ID, c.key.ID()))
	w.wantPays("the old link, ended", c, false)
}

// A key without the scope manage ends the links that it made, and no others.
func TestAKeyEndsWhatItMade(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, money.Dollar)
	manager := w.makes(nil, a.ID)
	plain := func() *madeKey {
		k, secret, err := w.billing.MakeKeyBy(t.Context(), &manager.Key, a.ID, billing.KeyOptions{})
		w.must(err)
		return &madeKey{k, secret}
	}
	one, other := plain(), plain()
	for _, c := range []struct {
		what string
		by   *billing.Key
		link *caller
		want problem.Kind
	}{
		{"its own link", &one.Key, w.links(one), 0},
		{"the link of another key", &one.Key, w.links(other), problem.Forbidden},
		{"the link of the key that made it", &one.Key, w.links(manager), problem.Forbidden},
		{"the operator's link", &one.Key, w.linked(a, 0), problem.Forbidden},
		{"a manager, the link of a key that it made", &manager.Key, w.links(one), 0},
		{"a manager, the operator's link", &manager.Key, w.linked(a, 0), 0},
		{"no link", &one.Key, w.caller(), problem.NotFound},
	} {
		err := w.billing.Unlink(t.Context(), c.by, a.ID, c.link.key.ID())
		if c.want == 0 && err != nil || c.want != 0 && !problem.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	_, err := w.billing.RevokeKey(t.Context(), &one.Key, a.ID, other.ID)
	w.wantRefusal("a key without manage revokes another", err, problem.Forbidden)
}

// The subject of a token links no caller and ends no link, whatever its cap is.
func TestATokenChangesNoLinks(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, money.Dollar)
	b := w.taking()
	_, err := b.AddIssuer(t.Context(), a.ID, issuerURL, billing.IssuerOptions{SubjectDailyCap: 1, TotalDailyCap: 2, AllowAll: true})
	w.must(err)
	k, err := b.AuthenticateRequest(t.Context(), withToken("ann"), billing.KeyRequirement{Scope: billing.ScopeCall})
	w.must(err)
	k.DailyCap = 0
	_, err = b.LinkBy(t.Context(), k, a.ID, w.caller().claim(a.ID, 0))
	w.wantRefusal("a token links a caller", err, problem.Forbidden)
	w.wantRefusal("a token ends a link", b.Unlink(t.Context(), k, a.ID, w.linked(a, 0).key.ID()), problem.Forbidden)
}

// A caller that another key links again belongs to that key.
func TestALinkBelongsToItsLastMaker(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, money.Dollar)
	first, second := w.makes(nil, a.ID), w.makes(nil, a.ID)
	c := w.links(first)
	w.clock.Advance(time.Second)
	_, err := w.billing.LinkBy(t.Context(), &second.Key, a.ID, c.claim(a.ID, 0))
	w.must(err)
	r, err := w.billing.RevokeKey(t.Context(), nil, a.ID, first.ID)
	w.must(err)
	if len(r.Links) != 0 {
		t.Errorf("the first key ended %v", r.Links)
	}
	w.wantPays("the link", c, true)
	_, err = w.billing.RevokeKey(t.Context(), nil, a.ID, second.ID)
	w.must(err)
	w.wantPays("the link after its last maker", c, false)
}

// copies stores n copies of documents, in which each of some words is replaced by a new one.
func (w *world) copies(n int, docs []store.Key, words ...string) {
	w.Helper()
	var writes []store.Write
	for range n {
		var replace []string
		for _, word := range words {
			replace = append(replace, word, strings.ToLower(rand.Text() + rand.Text() + rand.Text())[:len(word)])
		}
		if len(words[0]) == 2*identity.Size {
			replace[1] = newKey(w).ID().String()
		}
		r := strings.NewReplacer(replace...)
		for _, k := range docs {
			d, err := w.store.Doc(context.Background(), k)
			w.must(err)
			writes = append(writes, store.Put{Key: store.Key{Partition: r.Replace(k.Partition), Sort: r.Replace(k.Sort)}, WriteID: store.WriteID{9}, Data: []byte(r.Replace(string(d.Data)))})
		}
	}
	for part := range slices.Chunk(writes, store.MaxWrites) {
		w.must(w.store.Commit(context.Background(), part...))
	}
}

// copiesOf stores n copies of a key.
func (w *world) copiesOf(k *madeKey, n int) {
	w.Helper()
	listed := billing.KeyDocs.Key(k.Account, k.ID)
	d, err := w.store.Doc(context.Background(), listed)
	w.must(err)
	var one struct{ Hash string }
	w.must(json.Unmarshal(d.Data, &one))
	w.copies(n, []store.Key{listed, billing.SecretDocs.Key(one.Hash)}, k.ID, one.Hash)
}

// The number of active keys is bounded, for an account and for each maker, and so is the
// depth of a tree. Ended keys take no place, but only the last of them are listed. A tree of 1,000
// keys ends whole.
func TestKeysAreBounded(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, money.Dollar)
	root := w.makes(nil, a.ID)
	last := root
	for range 8 {
		last = w.makes(last, a.ID)
	}
	_, _, err := w.billing.MakeKeyBy(t.Context(), &last.Key, a.ID, billing.KeyOptions{})
	w.wantRefusal("a key with eight makers above it makes one", err, problem.Forbidden)
	w.copiesOf(w.makes(root, a.ID), 97)
	w.makes(root, a.ID)
	_, _, err = w.billing.MakeKeyBy(t.Context(), &root.Key, a.ID, billing.KeyOptions{})
	w.wantRefusal("the 101st key of a key", err, problem.QuotaReached)
	w.copiesOf(last, 892)
	_, _, err = w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{})
	w.wantRefusal("the 1,001st key of an account", err, problem.QuotaReached)
	links := []*caller{w.links(root), w.links(last)}
	r, err := w.billing.RevokeKey(t.Context(), nil, a.ID, root.ID)
	w.must(err)
	if len(r.EndedKeysAndLinks.Keys) != 999 || len(r.Links) != 2 {
		t.Errorf("%d keys and %d links ended, want 999 and 2", len(r.EndedKeysAndLinks.Keys), len(r.Links))
	}
	w.wantUsable("the last of its keys", last, false)
	for _, c := range links {
		w.wantPays("a link of the tree", c, false)
	}
	w.wantComplete(a.ID)
	// For each new key, the key that ended first leaves the list.
	w.clock.Advance(time.Second)
	rotated := w.makes(nil, a.ID)
	listed, err := w.billing.Keys(t.Context(), a.ID)
	w.must(err)
	if len(listed) != 1000 || !slices.Contains(ids(listed), rotated.ID) {
		t.Errorf("%d keys are listed, want 1000 with the last", len(listed))
	}
	w.must(w.identify(rotated.secret))
}

// A revoked key stays listed while a key that it made can be used, and while a link of it exists.
func TestAKeyWithATreeStaysListed(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 0)
	alone, linked, revoked := w.makes(nil, a.ID), w.makes(nil, a.ID), w.makes(nil, a.ID)
	child := w.makes(alone, a.ID)
	w.links(linked)
	for _, k := range []*madeKey{alone, linked, revoked} {
		_, err := w.billing.RevokeSingleKey(t.Context(), nil, a.ID, k.ID)
		w.must(err)
		w.clock.Advance(time.Second)
	}
	w.copiesOf(revoked, 998)
	w.makes(nil, a.ID)
	r, err := w.billing.RevokeKey(t.Context(), nil, a.ID, alone.ID)
	if w.must(err); !slices.Equal(ids(r.EndedKeysAndLinks.Keys), sorted(child.ID)) {
		t.Errorf("the first key that ended ends %v", ids(r.EndedKeysAndLinks.Keys))
	}
	r, err = w.billing.RevokeKey(t.Context(), nil, a.ID, linked.ID)
	if w.must(err); len(r.Links) != 1 {
		t.Errorf("the second key that ended ends the links %v, want 1", r.Links)
	}
}

func TestAThousandLinksEndWithTheirKey(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, money.Dollar)
	k := w.makes(nil, a.ID)
	first := w.links(k)
	id := first.key.ID().String()
	w.copies(998, []store.Key{billing.LinkDocs.Key(id), billing.LinkedDocs.Key(a.ID, id)}, id)
	last := w.links(k)
	r, err := w.billing.RevokeKey(t.Context(), nil, a.ID, k.ID)
	w.must(err)
	if len(r.Links) != 1000 {
		t.Errorf("%d links ended, want 1000", len(r.Links))
	}
	w.wantPays("the first link", first, false)
	w.wantPays("the last link", last, false)
	w.wantComplete(a.ID)
}

// Wherever a revocation dies: once its key is revoked, its whole tree is refused, and either the
// sweeper or the next revocation completes it.
func TestARevocationThatDiesIsCompleted(t *testing.T) {
	for what, complete := range map[string]func(w *world, account, other, root string) error{
		"the sweeper": func(w *world, _, _, _ string) error { _, err := w.billing.EndTrees(context.Background()); return err },
		"the same": func(w *world, a, _, root string) error {
			_, err := w.billing.RevokeKey(context.Background(), nil, a, root)
			return err
		},
		"another": func(w *world, a, other, _ string) error {
			_, err := w.billing.RevokeKey(context.Background(), nil, a, other)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			everywhere(t, func(t *testing.T, s *dying) bool {
				w := newWorldOver(t, s.Store)
				a := w.account("acme", 1, money.Dollar)
				root, other := w.makes(nil, a.ID), w.makes(nil, a.ID)
				keys := []*madeKey{w.makes(root, a.ID)}
				for range 12 { // more than a commit ends
					keys = append(keys, w.makes(keys[0], a.ID))
				}
				links := []*caller{w.links(root), w.links(keys[12])}
				_, err := w.instance(s).RevokeKey(t.Context(), nil, a.ID, root.ID)
				died := err != nil
				check := func(when string) {
					t.Helper()
					if w.identify(root.secret) == nil {
						t.Fatalf("%s: the key can be used", when)
					}
					for _, k := range keys {
						w.wantUsable(when+": a key of the tree", k, false)
						_, _, err := w.billing.MakeKeyBy(t.Context(), &k.Key, a.ID, billing.KeyOptions{})
						w.wantRefusal(when+": a key of the tree makes one", err, problem.Unauthorized)
						_, err = w.billing.LinkBy(t.Context(), &k.Key, a.ID, w.caller().claim(a.ID, 0))
						w.wantRefusal(when+": a key of the tree links", err, problem.Unauthorized)
					}
					for _, c := range links {
						w.wantPays(when+": a link of the tree", c, false)
					}
				}
				if revoked := w.identify(root.secret) != nil; revoked {
					check("after the crash")
				} else if died && what != "the same" { // it never began
					return false
				}
				w.must(complete(w, a.ID, other.ID, root.ID))
				check("when completed")
				w.wantComplete(a.ID)
				changes, err := w.billing.Changes(t.Context(), a.ID, 1, 100)
				w.must(err)
				var ended []string
				for _, c := range changes {
					if c.Kind == billing.TreeEnded {
						ended = append(append(ended, c.EndedKeys...), c.EndedCallers...)
					}
				}
				slices.Sort(ended)
				if len(ended) != 15 || len(slices.Compact(ended)) != 15 {
					t.Errorf("the rows name %d ended keys and links, want 15, each once", len(ended))
				}
				return !died
			})
		})
	}
}

// Two revocations of one key at once, or of a key and of one that it made: both succeed, each key
// and link ends once, and nothing is left.
func TestRevocationsAtOnce(t *testing.T) {
	for what, pick := range map[string]func(root, child *madeKey) [2]string{
		"the same key":         func(root, _ *madeKey) [2]string { return [2]string{root.ID, root.ID} },
		"a key and its parent": func(root, child *madeKey) [2]string { return [2]string{child.ID, root.ID} },
	} {
		for range 20 {
			w := newWorld(t)
			a := w.account("acme", 1, money.Dollar)
			root := w.makes(nil, a.ID)
			child := w.makes(root, a.ID)
			keys := []*madeKey{root, child}
			for range 15 {
				keys = append(keys, w.makes(child, a.ID))
			}
			c := w.links(child)
			var all sync.WaitGroup
			for _, id := range pick(root, child) {
				all.Go(func() {
					if _, err := w.billing.RevokeKey(context.Background(), nil, a.ID, id); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				})
			}
			all.Wait()
			for _, k := range keys {
				w.wantUsable(what, k, false)
			}
			w.wantPays(what+": a link", c, false)
			w.wantComplete(a.ID)
			changes, err := w.billing.Changes(t.Context(), a.ID, 1, 100)
			w.must(err)
			ended := map[string]int{}
			for _, change := range changes {
				switch change.Kind {
				case billing.KeyRevoked:
					ended[change.Key]++
				case billing.TreeEnded:
					for _, one := range append(change.EndedKeys, change.EndedCallers...) {
						ended[one]++
					}
				}
			}
			for one, n := range ended {
				if n != 1 || len(ended) != len(keys)+1 {
					t.Errorf("%s: %s ended %d times, of %d", what, one, n, len(ended))
				}
			}
		}
	}
}

// A key is revoked while a call that its child pays, or that its link pays, is accepted: the call is
// paid whole or refused, and the next one is refused.
func TestAKeyIsRevokedWhileItsTreePays(t *testing.T) {
	for range 30 {
		w := newWorld(t)
		a := w.account("acme", 1, money.Dollar)
		root := w.makes(nil, a.ID)
		child, c := w.makes(root, a.ID), w.links(root)
		var all sync.WaitGroup
		paid := money.Amount(0)
		all.Go(func() {
			if _, err := w.billing.RevokeKey(context.Background(), nil, a.ID, root.ID); err != nil {
				t.Error(err)
			}
		})
		for range 3 {
			out := c.say(w.host(), "hi")
			if out.Problem == nil {
				paid += 2000
			} else {
				w.wantOutcome("a call by the link", out, problem.PaymentRequired)
			}
			if err := w.identify(child.secret); err != nil && !errors.Is(err, billing.ErrRevokedKey) {
				t.Errorf("the child: %v", err)
			}
		}
		all.Wait()
		w.wantPays("a call by the link afterwards", c, false)
		w.wantUsable("the child afterwards", child, false)
		w.wantBalance(a, money.Dollar-paid)
	}
	// In the commit of the call that the link pays: the call was accepted before.
	w := newWorld(t)
	a := w.account("acme", 1, money.Dollar)
	root := w.makes(nil, a.ID)
	c := w.links(root)
	s := &interrupted{Store: w.store, commit: func() {
		_, err := w.billing.RevokeKey(context.Background(), nil, a.ID, root.ID)
		w.must(err)
	}}
	w.wantOutcome("a call in whose commit the key is revoked", c.say(w.hostOf(s, w.instance(s)), "hi"), 0)
	w.wantBalance(a, money.Dollar-2000)
	w.wantPays("the next call", c, false)
}

// Another process that has cached a link of a tree pays for no call once the key is revoked.
func TestNoProcessPaysByALinkOfARevokedKey(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, money.Dollar)
	root := w.makes(nil, a.ID)
	c := w.links(root)
	other := w.hostOf(w.store, w.instance(w.store))
	w.wantOutcome("a call at another process", c.say(other, "hi"), 0)
	config := w.billing.Config
	config.Wait = func(_ context.Context, d time.Duration) error {
		w.wantOutcome("a call before the tree has ended", c.say(other, "hi"), problem.PaymentRequired)
		w.clock.Advance(d)
		return nil
	}
	_, err := billing.New(config).RevokeKey(t.Context(), nil, a.ID, root.ID)
	w.must(err)
	w.wantOutcome("a call after it", c.say(other, "hi"), problem.PaymentRequired)
	w.wantBalance(a, money.Dollar-2000)
}

// The same holds if the process that revokes the key dies after it has ended the link, and another
// process completes the revocation at once.
func TestNoProcessPaysByALinkOfAnInterruptedRevocation(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, money.Dollar)
	root := w.makes(nil, a.ID)
	c := w.links(root)
	other := w.hostOf(w.store, w.instance(w.store))
	w.wantOutcome("a call at another process", c.say(other, "hi"), 0)
	config := w.billing.Config
	config.Wait = func(context.Context, time.Duration) error { return context.Canceled }
	if _, err := billing.New(config).RevokeKey(t.Context(), nil, a.ID, root.ID); err == nil {
		t.Error("a revocation that is interrupted has no error")
	}
	config.Wait = func(_ context.Context, d time.Duration) error {
		w.clock.Advance(d)
		return nil
	}
	_, err := billing.New(config).EndTrees(t.Context())
	w.must(err)
	w.wantOutcome("a call after it is completed", c.say(other, "hi"), problem.PaymentRequired)
	w.wantComplete(a.ID)
}

// Whatever is made and revoked in whatever order, a key or a link can be used if and only if neither
// it was revoked, nor a key above it with its tree.
func TestTreesEndWhole(test *testing.T) {
	rapid.Check(test, func(t *rapid.T) {
		w := newWorld(test)
		a := w.account("acme", 1, 100*money.Dollar)
		type thing struct {
			key    *madeKey
			caller *caller
			parent int // -1 for the operator
			alive  bool
		}
		var all []thing
		pick := func(label string, fits func(thing) bool) int {
			var among []int
			for i, one := range all {
				if fits(one) {
					among = append(among, i)
				}
			}
			if len(among) == 0 {
				return -1
			}
			return rapid.SampledFrom(among).Draw(t, label)
		}
		isKey := func(one thing) bool { return one.key != nil }
		canMake := func(one thing) bool { return one.key != nil && one.alive }
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"key", "child", "link", "revoke", "alone"}).Draw(t, "step") {
			case "key":
				all = append(all, thing{w.makes(nil, a.ID), nil, -1, true})
			case "child":
				if by := pick("by", canMake); by >= 0 && len(all[by].key.Ancestors) < 6 {
					all = append(all, thing{w.makes(all[by].key, a.ID), nil, by, true})
				}
			case "link":
				if by := pick("by", canMake); by >= 0 {
					all = append(all, thing{nil, w.links(all[by].key), by, true})
				}
			case "alone":
				if i := pick("key", isKey); i >= 0 {
					_, err := w.billing.RevokeSingleKey(context.Background(), nil, a.ID, all[i].key.ID)
					w.must(err)
					all[i].alive = false
				}
			case "revoke":
				i := pick("key", isKey)
				if i < 0 {
					continue
				}
				r, err := w.billing.RevokeKey(context.Background(), nil, a.ID, all[i].key.ID)
				w.must(err)
				all[i].alive = false
				ended := 0
				for j := range all {
					for up := all[j].parent; up >= 0 && all[j].alive; up = all[up].parent {
						if up == i {
							all[j].alive = false
							ended++
						}
					}
				}
				if got := len(r.EndedKeysAndLinks.Keys) + len(r.Links); got != ended {
					t.Fatalf("%d things ended, want %d", got, ended)
				}
			}
			for i, one := range all {
				if one.key != nil {
					w.wantUsable(fmt.Sprint("key ", i), one.key, one.alive)
				} else {
					w.wantPays(fmt.Sprint("link ", i), one.caller, one.alive)
				}
			}
			w.wantComplete(a.ID)
		}
	})
}
