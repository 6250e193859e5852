package oldhost_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/tests/upgrade/oldhost"
)

// A dump is the whole file: a file that is made of it has the same dump.
func TestADumpIsTheWholeFile(t *testing.T) {
	for _, name := range []string{"format2", "format3"} {
		text, err := os.ReadFile(filepath.Join("..", "testdata", name, "data.txt"))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "data.db")
		if err := oldhost.Load(bytes.NewReader(text), path); err != nil {
			t.Fatal(err)
		}
		var again bytes.Buffer
		if err := oldhost.Dump(&again, path); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Bytes(), text) {
			t.Errorf("%s: a dump of the loaded file differs from the text", name)
		}
	}
}

func TestADumpThatIsDamagedIsNotLoaded(t *testing.T) {
	for _, text := range []string{
		`"key" "before a bucket"`,
		`bucket "a" x`,
		`bucket "a"`,
		"bucket \"a\" 1\n\"key\"",
		"bucket \"a\" 1\n\"key\" base64:?",
		"bucket \"a\" 1\n\"key\" unquoted",
		"bucket \"a\" 1\nbucket \"a\" 1",
	} {
		if err := oldhost.Load(strings.NewReader(text), filepath.Join(t.TempDir(), "data.db")); err == nil || !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("%q: %v, expected the line that is wrong", text, err)
		}
	}
}
