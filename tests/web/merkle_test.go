package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// checkpoint is the JSON of a checkpoint for the module.
type checkpoint struct {
	Host string `json:"host"`
	Size uint64 `json:"size"`
	Root string `json:"root"`
}

func ofLog(c translog.Checkpoint) checkpoint {
	return checkpoint{c.Host.String(), c.Size, hex.EncodeToString(c.Root[:])}
}

// noteOf signs a checkpoint's text as its host does, in the form of signed notes.
func noteOf(t *testing.T, text string, host *identity.Key) string {
	t.Helper()
	name := translog.Origin(host.ID())
	sig, err := host.Sign(t.Context(), []byte(text))
	must(t, err)
	return text + "\n" + signatureLine(name, 1, host.ID(), sig)
}

// signatureLine is a line of a signed note for a key of a type.
func signatureLine(name string, kind byte, id identity.ID, sig []byte) string {
	sum := sha256.Sum256(append(append([]byte(name), '\n', kind), id[:]...))
	return "— " + name + " " + base64.StdEncoding.EncodeToString(append(sum[:4:4], sig...)) + "\n"
}

func keyOf(t *testing.T, n byte) *identity.Key {
	t.Helper()
	key, err := identity.KeyFromSeed(bytes.Repeat([]byte{n}, identity.Size))
	must(t, err)
	return key
}

func TestNotesOpenAsByGo(t *testing.T) {
	t.Parallel()
	host, witness, other := keyOf(t, 1), keyOf(t, 2), keyOf(t, 3)
	c := translog.Checkpoint{Host: host.ID(), Size: 7, Root: sha256.Sum256([]byte("root"))}
	good := noteOf(t, c.Text(), host)
	cosigned, err := translog.Cosign(t.Context(), c, witness, time.Unix(1_800_000_000, 0))
	must(t, err)
	_, line, _ := strings.Cut(string(cosigned), "\n\n")
	resize := func(size string) string { return strings.Replace(c.Text(), "\n7\n", "\n"+size+"\n", 1) }
	wrong := strings.Replace(line, "AAAAAGtJ", "AAAAAGtK", 1)
	notes := []string{
		good, good + line, good + line + line, line + good,
		noteOf(t, c.Text(), other), // signed by somebody else
		c.Text() + "\n" + signatureLine(translog.Origin(host.ID()), 1, host.ID(), make([]byte, 64)), // not signed
		c.Text() + "\n" + line, // cosigned only
		good + wrong, good + signatureLine("vacant/"+other.ID().String(), 4, other.ID(), make([]byte, 72)),
		good + signatureLine("elsewhere.example", 4, other.ID(), make([]byte, 72)), // unknown, so ignored
		good + signatureLine("vacant/"+other.ID().String(), 4, other.ID(), make([]byte, 10)),
		noteOf(t, resize("0"), host), noteOf(t, resize("07"), host), noteOf(t, resize("-1"), host), noteOf(t, resize("x"), host), noteOf(t, resize("9007199254740991"), host),
		noteOf(t, strings.ToUpper(c.Text()), host), noteOf(t, c.Text()+"more\n", host), noteOf(t, strings.TrimSuffix(c.Text(), "=\n")+"\n", host),
		strings.TrimSuffix(good, "\n"), strings.ReplaceAll(good, "\n", "\r\n"), good + "\n", strings.Replace(good, "— ", "- ", 1), good + "\x00", good + "— a b\n", good + "— a+b AAAAAAAA\n",
		"", "\n\n", c.Text(), c.Text() + "\n", strings.Repeat("x", translog.MaxNoteBytes+1), good + strings.Repeat("— u AAAAAAAA\n", 99), good + strings.Repeat("— u AAAAAAAA\n", 100),
	}
	r := rand.New(rand.NewPCG(7, 8))
	for range 400 {
		b := []byte(good + line)
		b[r.IntN(len(b))] ^= 1 << r.IntN(7)
		notes = append(notes, string(b))
	}
	notes = slices.DeleteFunc(notes, func(s string) bool { return strings.ToValidUTF8(s, "") != s })
	type input struct {
		Note string `json:"note"`
	}
	opened := 0
	for i, got := range ask(t, newModule(t), "note", each(notes, func(n string) input { return input{n} })) {
		want, cosignatures, err := translog.VerifyCheckpoint([]byte(notes[i]))
		if err != nil {
			if got.Error != "untrusted" {
				t.Errorf("the module opens %.300q: %+v; Go refuses it: %v", notes[i], got, err)
			}
			continue
		}
		opened++
		if (checkpoint{got.Host, got.Size, got.Root}) != ofLog(want) || len(got.Cosignatures) != len(cosignatures) {
			t.Errorf("%.300q: %+v, want %+v with %+v", notes[i], got, ofLog(want), cosignatures)
			continue
		}
		for n, s := range cosignatures {
			if g := got.Cosignatures[n]; g.Name != s.Name || g.Witness != s.Witness.String() || g.Time != s.Time {
				t.Errorf("cosignature %+v, want %+v", g, s)
			}
		}
	}
	if opened < 8 {
		t.Errorf("%d notes open: this proves little", opened)
	}
	// A known witness is verified under its name.
	known := []map[string]any{{"note": good + signatureLine("witness.example", 4, other.ID(), timed(t, other, c.Text())), "known": []map[string]string{{"name": "witness.example", "id": other.ID().String()}}}}
	if got := ask(t, newModule(t), "note", known)[0]; len(got.Cosignatures) != 1 || got.Cosignatures[0].Name != "witness.example" || got.Cosignatures[0].Time != 5 {
		t.Errorf("a known witness: %+v", got)
	}
}

// timed is a cosignature of a text at 5 seconds past 1970.
func timed(t *testing.T, key *identity.Key, text string) []byte {
	t.Helper()
	sig, err := key.Sign(t.Context(), []byte("cosignature/v1\ntime 5\n"+text))
	must(t, err)
	return append(binary.BigEndian.AppendUint64(nil, 5), sig...)
}

// tree computes roots and proofs as RFC 6962 defines them.
type tree []identity.Hash

func (d tree) root() []byte {
	switch len(d) {
	case 0:
		sum := sha256.Sum256(nil)
		return sum[:]
	case 1:
		sum := sha256.Sum256(append([]byte{0}, d[0][:]...))
		return sum[:]
	}
	k := d.split()
	sum := sha256.Sum256(slices.Concat([]byte{1}, d[:k].root(), d[k:].root()))
	return sum[:]
}

func (d tree) split() int { return 1 << (bits.Len(uint(len(d)-1)) - 1) }

func (d tree) path(m int) [][]byte {
	if len(d) == 1 {
		return nil
	}
	if k := d.split(); m < k {
		return append(d[:k].path(m), d[k:].root())
	} else {
		return append(d[k:].path(m-k), d[:k].root())
	}
}

func (d tree) since(m int, whole bool) [][]byte {
	if m == len(d) {
		if whole {
			return nil
		}
		return [][]byte{d.root()}
	}
	if k := d.split(); m <= k {
		return append(d[:k].since(m, whole), d[k:].root())
	} else {
		return append(d[k:].since(m-k, false), d[:k].root())
	}
}

func TestProofsAreVerifiedAsByGo(t *testing.T) {
	t.Parallel()
	r, m := rand.New(rand.NewPCG(9, 10)), newModule(t)
	all := make(tree, 70)
	for i := range all {
		fill(r, all[i][:])
	}
	at := func(size int) translog.Checkpoint {
		return translog.Checkpoint{Host: identity.ID{9}, Size: uint64(size), Root: [32]byte(all[:size].root())}
	}
	type inclusion struct {
		Log   checkpoint `json:"log"`
		Seq   uint64     `json:"seq"`
		Event string     `json:"event"`
		Proof []string   `json:"proof"`
	}
	type consistency struct {
		From  checkpoint `json:"from"`
		To    checkpoint `json:"to"`
		Proof []string   `json:"proof"`
	}
	hexes := func(proof [][]byte) []string { return append([]string{}, each(proof, hex.EncodeToString)...) }
	var included []inclusion
	var consistent []consistency
	var verdicts, grown []error
	add := func(c translog.Checkpoint, seq uint64, event identity.Hash, p [][]byte) {
		included = append(included, inclusion{ofLog(c), seq, event.String(), hexes(p)})
		verdicts = append(verdicts, translog.CheckInclusion(c, seq, event, p))
	}
	grow := func(from, to translog.Checkpoint, p [][]byte) {
		consistent = append(consistent, consistency{ofLog(from), ofLog(to), hexes(p)})
		grown = append(grown, translog.CheckConsistency(from, to, p))
	}
	for range 600 {
		size := 1 + r.IntN(len(all))
		seq, from := r.IntN(size), r.IntN(size+1)
		path, since := all[:size].path(seq), [][]byte{}
		if from > 0 {
			since = all[:size].since(from, true)
		}
		add(at(size), uint64(seq+1), all[seq], path)
		grow(at(from), at(size), since)
		// Each once more, damaged.
		add(at(size), uint64(seq+1+r.IntN(2)), all[(seq+r.IntN(2))%len(all)], shaken(r, path))
		add(at(r.IntN(len(all))), uint64(r.IntN(size+1)), all[seq], path)
		grow(at(from), at(size), shaken(r, since))
		grow(at(r.IntN(len(all))), at(size), since)
		forged := at(from)
		forged.Root[r.IntN(32)] ^= 1
		grow(forged, at(size), since)
	}
	judge := func(what string, verdicts []error, got []answer, show func(i int) string) {
		right := 0
		for i, g := range got {
			if verdicts[i] == nil {
				right++
			}
			if (g.Error == "untrusted") != (verdicts[i] != nil) || g.Error != "" && g.Error != "untrusted" {
				t.Errorf("%s: %+v, want %v", show(i), g, verdicts[i])
			}
		}
		if right < 500 || right == len(got) {
			t.Errorf("%d of %d proofs of %s are right: this proves little", right, len(got), what)
		}
	}
	judge("inclusion", verdicts, ask(t, m, "inclusion", included), func(i int) string { return fmt.Sprintf("%+v", included[i]) })
	judge("consistency", grown, ask(t, m, "consistency", consistent), func(i int) string { return fmt.Sprintf("%+v", consistent[i]) })
}

// shaken damages a proof, or leaves it.
func shaken(r *rand.Rand, proof [][]byte) [][]byte {
	proof = each(proof, bytes.Clone)
	switch r.IntN(4) {
	case 0:
		if len(proof) > 0 {
			proof[r.IntN(len(proof))][r.IntN(32)] ^= 1
		}
	case 1:
		proof = append(proof, make([]byte, 32))
	case 2:
		proof = proof[:len(proof)/2]
	}
	return proof
}
