package web

import (
	"io/fs"
	"path"
	"strings"
	"testing"
)

func TestCompact(t *testing.T) {
	for source, want := range map[string]string{
		"":                                     "",
		"  a;\n\n\tb;":                         "a;\nb;\n",
		"// one\na; // two\n":                  "a; // two\n",
		"/** one */\na;\n":                     "a;\n",
		"/** one */ (a);\n":                    "(a);\n",
		"/**\n * one\n * @type {A}\n */\na;\n": "a;\n",
		"/* one\ntwo */\na;\n":                 "a;\n",
		"\"/* not a comment\";\n":              "\"/* not a comment\";\n",
	} {
		if got := compact(source); got != want {
			t.Errorf("compact(%q) is %q, want %q", source, got, want)
		}
	}
}

// compact would remove the indentation of a string that spans lines, and the code that follows the
// end of a comment.
func TestAssetsCanBeCompacted(t *testing.T) {
	files, err := fs.Glob(assetFiles, "assets/*.[jc]s*")
	if err != nil || len(files) < 2 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, name := range files {
		source, err := assetFiles.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		comment := false
		for i, line := range strings.Split(string(source), "\n") {
			line = strings.TrimSpace(line)
			if path.Ext(name) == ".js" && !comment && !strings.HasPrefix(line, "//") && !strings.HasPrefix(line, "/*") && strings.Count(line, "`")%2 != 0 && !strings.Contains(line, "/`/") && !strings.Contains(line, "\"`\"") {
				t.Errorf("%s:%d: a text spans lines: %s", name, i+1, line)
			}
			if strings.HasPrefix(line, "/*") && !strings.Contains(line, "*/") {
				comment = true
			} else if comment && strings.Contains(line, "*/") {
				comment = false
				if !strings.HasSuffix(line, "*/") {
					t.Errorf("%s:%d: code follows the end of a comment: %s", name, i+1, line)
				}
			}
			if strings.HasPrefix(line, "/*") && strings.Count(line, "/*") > 1 && strings.HasPrefix(line[strings.Index(line, "*/")+2:], " /") {
				t.Errorf("%s:%d: a comment follows a comment: %s", name, i+1, line)
			}
		}
	}
}
