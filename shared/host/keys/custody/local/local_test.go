package local

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/custodytest"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func open(t *testing.T, path string) *Vault {
	t.Helper()
	v, err := Open(path, rand.Reader)
	if err != nil {
		t.Fatalf("Open(%s) = %v", path, err)
	}
	return v
}

func TestALocalVaultKeepsTheContractOfVaults(t *testing.T) {
	custodytest.Run(t, func(t *testing.T) custody.Vault { return open(t, filepath.Join(t.TempDir(), "seal.key")) })
}

func TestTheKeyFileIsMadeOnceAndOnlyItsOwnerReadsIt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "seal.key")
	box, err := open(t, path).Seal(t.Context(), "x", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() != 32 || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("key file: %d bytes, mode %v, want 32 and 0600", info.Size(), info.Mode())
	}
	made, _ := os.ReadFile(path)
	if got, err := open(t, path).Open(t.Context(), "x", box); err != nil || string(got) != "secret" {
		t.Errorf("after reopening Open() = %q, %v", got, err)
	}
	if kept, _ := os.ReadFile(path); !bytes.Equal(kept, made) {
		t.Error("the key file changed when it was opened again")
	}
	if diff := cmp.Diff([]string{"seal.key"}, names(t, dir)); diff != "" {
		t.Errorf("files left beside the key (-want +got):\n%s", diff)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestProcessesThatMakeTheKeyFileAtOnceEndWithOneKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seal.key")
	vaults := make([]*Vault, 16)
	var wg sync.WaitGroup
	for i := range vaults {
		wg.Go(func() { vaults[i], _ = Open(path, rand.Reader) })
	}
	wg.Wait()
	box, err := vaults[0].Seal(t.Context(), "x", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range vaults {
		if got, err := v.Open(t.Context(), "x", box); err != nil || string(got) != "secret" {
			t.Errorf("vault %d: Open() = %q, %v", i, got, err)
		}
	}
}

func TestAKeyFileThatCannotBeTrustedIsRefusedAndLeftAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the mode of a file says nothing on Windows")
	}
	key := bytes.Repeat([]byte{7}, 32)
	tests := []struct {
		name string
		data []byte
		mode fs.FileMode
		want problem.Kind
	}{
		{"group may read", key, 0o640, problem.Forbidden},
		{"others may read", key, 0o604, problem.Forbidden},
		{"others may write", key, 0o602, problem.Forbidden},
		{"empty", nil, 0o600, problem.Damaged},
		{"one byte short", key[1:], 0o600, problem.Damaged},
		{"one byte long", append(bytes.Clone(key), 7), 0o600, problem.Damaged},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "seal.key")
			if err := errors.Join(os.WriteFile(path, tt.data, 0o600), os.Chmod(path, tt.mode)); err != nil {
				t.Fatal(err)
			}
			_, err := Open(path, rand.Reader)
			if !problem.Is(err, tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("Open() = %v, want kind %v naming the file", err, tt.want)
			}
			if got, _ := os.ReadFile(path); !bytes.Equal(got, tt.data) {
				t.Errorf("the refused file was changed to %x", got)
			}
		})
	}
}

func TestAPlaceWhereNoKeyFileCanBeIsRefused(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir, rand.Reader); !problem.Is(err, problem.Forbidden) {
		t.Errorf("Open(a folder) = %v, want forbidden", err)
	}
	if _, err := Open(filepath.Join(dir, "missing", "seal.key"), rand.Reader); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Open(in a missing folder) = %v, want unavailable", err)
	}
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), dangling); err == nil {
		if _, err := Open(dangling, rand.Reader); err == nil {
			t.Error("Open(a link to nothing) made a key")
		}
	}
}

func TestWithoutRandomnessNothingIsMadeOrSealed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "seal.key")
	if _, err := Open(path, iotest.ErrReader(io.ErrUnexpectedEOF)); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Open() = %v, want unavailable", err)
	}
	if left := names(t, dir); len(left) != 0 {
		t.Errorf("files left = %v, want none", left)
	}
	v := open(t, path)
	v.rand = bytes.NewReader(make([]byte, 23))
	if box, err := v.Seal(t.Context(), "x", []byte("s")); !problem.Is(err, problem.Unavailable) || box != nil {
		t.Errorf("Seal() = %x, %v, want unavailable", box, err)
	}
}

func TestABoxOfALaterFormatIsNamedAsSuch(t *testing.T) {
	v := open(t, filepath.Join(t.TempDir(), "seal.key"))
	box, err := v.Seal(t.Context(), "vacant:x", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	box[0] = 2
	_, err = v.Open(t.Context(), "vacant:x", box)
	if want := "sealed secret of vacant:x: expected format 1, got 2"; err == nil || err.Error() != want {
		t.Errorf("Open() = %v, want %s", err, want)
	}
}

func TestAVaultPrintsNothingOfItsKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seal.key")
	if err := os.WriteFile(path, bytes.Repeat([]byte{0xab}, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	v := open(t, path)
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		fmt.Fprintf(&out, verb+"\n", v)
		fmt.Fprintf(&out, verb+"\n", *v)
		fmt.Fprintf(&out, verb+"\n", struct{ V *Vault }{v})
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "vault", v)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "vault", v)
	// 0xab is 171 in decimal; a key printed in any form contains one of these.
	for _, trace := range []string{"abab", "ABAB", "171 171", "0xab", `\xab`} {
		if strings.Contains(out.String(), trace) {
			t.Errorf("printing a vault shows %q:\n%s", trace, out.String())
		}
	}
}

func TestAKeyInHexOpensWhatItSealedAndIsCheckedWithoutBeingShown(t *testing.T) {
	const key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	a, err := FromHex(key, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, err := FromHex(key, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	box, err := a.Seal(t.Context(), "x", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.Open(t.Context(), "x", box); err != nil || string(got) != "secret" {
		t.Errorf("Open() = %q, %v, want the secret", got, err)
	}
	for _, bad := range []string{"", key[2:], key + "00", "zz" + key[2:]} {
		_, err := FromHex(bad, rand.Reader)
		if err == nil || (bad != "" && strings.Contains(err.Error(), bad)) {
			t.Errorf("FromHex(%d characters) = %v, want an error that does not show the key", len(bad), err)
		}
	}
}
