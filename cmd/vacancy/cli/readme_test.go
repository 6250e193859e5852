package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
)

var (
	fenced  = regexp.MustCompile("(?s)```sh\n(.*?)```")
	inline  = regexp.MustCompile("`(vacancy [^`]+)`")
	chained = regexp.MustCompile(`&&|\||;`)
	quoted  = regexp.MustCompile(`"[^"]*"|'[^']*'`)
)

// readmeCommands are the vacancy command lines that a README shows, split into
// words.
func readmeCommands(text string) (lines [][]string) {
	var shown []string
	for _, block := range fenced.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			line, _, _ = strings.Cut(quoted.ReplaceAllString(line, "TEXT"), " #")
			shown = append(shown, chained.Split(line, -1)...)
		}
	}
	for _, span := range inline.FindAllStringSubmatch(text, -1) {
		shown = append(shown, quoted.ReplaceAllString(span[1], "TEXT"))
	}
	for _, s := range shown {
		if words := strings.Fields(s); len(words) > 1 && words[0] == "vacancy" {
			if words = words[1:]; words[0] == "help" {
				words = words[1:]
			}
			lines = append(lines, words)
		}
	}
	return lines
}

func TestReadmesShowCommandsAndFlagsThatExist(t *testing.T) {
	top := filepath.Join("..", "..", "..")
	count := 0
	for _, readme := range []string{"README.md", "infra/README.md", "infra/DESIGN.md", "cmd/vacancy/README.md", "cmd/vacancy/examples/README.md", "cmd/vacancy/examples/law-firm/README.md",
		"events/README.md", "localstack/README.md", "shared/README.md", "shared/EXTENDING.md", "shared/front/a2a/README.md", "shared/front/account/README.md", "shared/front/agp/README.md",
		"shared/front/mcpserver/README.md", "shared/front/openai/README.md", "shared/front/standalone/README.md", "shared/front/teamapi/README.md",
		"shared/host/billing/tokens/README.md"} {
		b, err := os.ReadFile(filepath.Join(top, readme))
		must(t, err)
		for _, words := range readmeCommands(string(b)) {
			count++
			cmd, rest, err := rootCommand(&kit.App{}).Find(words)
			if err != nil || !cmd.HasParent() {
				t.Errorf("%s shows vacancy %s, which is no command", readme, strings.Join(words, " "))
				continue
			}
			for _, word := range rest {
				if word == "--" { // a command of another program follows
					break
				}
				name, ok := strings.CutPrefix(word, "--")
				name, _, _ = strings.Cut(name, "=")
				var flag *pflag.Flag
				if flag = cmd.Flags().Lookup(name); flag == nil {
					flag = cmd.InheritedFlags().Lookup(name)
				}
				if ok && name != "help" && flag == nil {
					t.Errorf("%s shows vacancy %s; the command has no flag --%s", readme, strings.Join(words, " "), name)
				}
			}
		}
	}
	if count < 40 {
		t.Errorf("found %d commands in the READMEs, want all of them", count)
	}
}
