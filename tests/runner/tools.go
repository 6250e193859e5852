package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cdk"
	"github.com/vacancy-host/vacancy/localstack/server"
)

const staticcheckVersion = "v0.8.2"

// tool is a program that the tests need and Go does not fetch.
type tool struct {
	name    string
	why     string
	least   version           // the zero version accepts any
	ask     []string          // arguments that print its version
	install map[string]string // package name by package manager
	hint    string
}

var wanted = []tool{
	{"gofmt", "format", version{}, nil, nil, "it comes with Go: https://go.dev/dl"},
	{"curl", "e2e: the README's example, which needs --json", version{7, 82}, []string{"--version"}, map[string]string{"apt-get": "curl", "brew": "curl", "apk": "curl", "dnf": "curl"}, "https://curl.se"},
	{"java", "store, search: DynamoDB Local, OpenSearch", version{17, 0}, []string{"-version"}, map[string]string{"apt-get": "openjdk-17-jdk-headless", "brew": "openjdk@17", "apk": "openjdk17", "dnf": "java-17-openjdk-devel"}, "a JDK, 17 or newer"},
	{"javac", "store, search: their loopback launchers", version{17, 0}, []string{"-version"}, map[string]string{"apt-get": "openjdk-17-jdk-headless", "brew": "openjdk@17", "apk": "openjdk17", "dnf": "java-17-openjdk-devel"}, "a JDK, 17 or newer"},
	{"node", "infra, aws: the CDK", version{20, 0}, []string{"--version"}, map[string]string{"apt-get": "nodejs", "brew": "node", "apk": "nodejs", "dnf": "nodejs"}, "https://nodejs.org"},
	{"npm", "aws: fetches the CDK's command line", version{8, 0}, []string{"--version"}, map[string]string{"apt-get": "npm", "brew": "node", "apk": "npm", "dnf": "npm"}, "it comes with Node: https://nodejs.org"},
	{"chromium", "web: the pages in a browser", version{137, 0}, []string{"--version"}, map[string]string{"apt-get": "chromium", "brew": "chromium", "apk": "chromium", "dnf": "chromium"}, "Chromium, 137 or newer"},
	{"mvn", "store, search: fetches DynamoDB Local and OpenSearch", version{3, 0}, []string{"--version"}, map[string]string{"apt-get": "maven", "brew": "maven", "apk": "maven", "dnf": "maven"}, "https://maven.apache.org"},
}

// tools prints a table of required and found tools. It installs missing ones if
// a package manager offers them and needs no password.
func tools(ctx context.Context) bool {
	fmt.Printf("Vacancy tests on %s/%s, %d cores, %s\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	if toolTable(ctx) {
		return true
	}
	var missing []tool
	for _, t := range wanted {
		if _, ok := t.found(ctx); !ok {
			missing = append(missing, t)
		}
	}
	if err := install(ctx, missing); err != nil {
		fmt.Println(err)
		return false
	}
	return toolTable(ctx)
}

// toolTable prints the tools and reports whether all are present.
func toolTable(ctx context.Context) bool {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	all := true
	fmt.Fprintln(w, "TOOL\tWANTED\tFOUND\tHOW TO GET IT")
	fmt.Fprintf(w, "go\t%s or newer\t%s\t\n", goVersion(), runtime.Version())
	fmt.Fprintf(w, "staticcheck\t%s\tfetched by Go into %s\t\n", staticcheckVersion, cacheDir())
	for _, t := range wanted {
		found, ok := t.found(ctx)
		all = all && ok
		want := "any"
		if t.least != (version{}) {
			want = t.least.String() + " or newer"
		}
		how := ""
		if !ok {
			how = t.hint
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.name, want, found, how)
	}
	w.Flush()
	fmt.Println()
	return all
}

var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

var number = regexp.MustCompile(`(\d+)\.(\d+)`)

// version is a major and minor version.
type version struct{ major, minor int }

func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

func (v version) before(w version) bool {
	return v.major < w.major || v.major == w.major && v.minor < w.minor
}

func (t tool) found(ctx context.Context) (string, bool) {
	path, err := exec.LookPath(t.name)
	if err != nil {
		return "missing (" + t.why + ")", false
	}
	if t.ask == nil {
		return "yes", true
	}
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, path, t.ask...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "does not start", false
	}
	if len(out) == 0 {
		out = errs.Bytes() // Java prints its version there, where scripts print warnings
	}
	first, _, _ := strings.Cut(colour.ReplaceAllString(string(out), ""), "\n")
	if words := strings.Fields(first); len(words) > 3 {
		first = strings.Join(words[:3], " ")
	}
	if t.least != (version{}) {
		m := number.FindStringSubmatch(first)
		if m == nil {
			return "version unknown: " + first, false
		}
		major, _ := strconv.Atoi(m[1]) // the expression matches digits only
		minor, _ := strconv.Atoi(m[2])
		if (version{major, minor}).before(t.least) {
			return first + ": too old", false
		}
	}
	return first, true
}

// goVersion is the version in go.mod. An older Go could not have built this
// program.
func goVersion() string {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return "unknown"
	}
	m := regexp.MustCompile(`(?m)^go (\S+)`).FindSubmatch(mod)
	if m == nil {
		return "unknown"
	}
	return string(m[1])
}

// install calls the machine's package manager, if it needs no password.
func install(ctx context.Context, missing []tool) error {
	for _, manager := range []string{"apt-get", "apk", "dnf", "brew"} {
		path, err := exec.LookPath(manager)
		if err != nil || (manager != "brew" && os.Geteuid() != 0) {
			continue
		}
		args := map[string][]string{
			"apt-get": {"install", "-y", "--no-install-recommends"}, "apk": {"add"}, "dnf": {"install", "-y"}, "brew": {"install"},
		}[manager]
		for _, t := range missing {
			args = append(args, t.install[manager])
		}
		fmt.Println("installing:", manager, strings.Join(args, " "))
		if manager == "apt-get" {
			if err := command(ctx, nil, path, "update"); err != nil {
				return err
			}
		}
		return command(ctx, []string{"DEBIAN_FRONTEND=noninteractive"}, path, args...)
	}
	return fmt.Errorf("tools are missing and may not be installed here: see the table")
}

// cacheDir is the one directory for everything that the tests fetch.
func cacheDir() string {
	dir, err := cache.Dir(os.Getenv)
	if err != nil {
		return filepath.Join(os.TempDir(), "vacancy")
	}
	return dir
}

func staticcheckPath() string {
	return filepath.Join(cacheDir(), "staticcheck-"+staticcheckVersion, "staticcheck")
}

// downloads run while earlier stages run.
type downloads map[string]chan error

func fetchAll(ctx context.Context, chosen []stage) downloads {
	d := downloads{}
	for _, s := range chosen {
		for _, name := range s.needs {
			if d[name] != nil {
				continue
			}
			done := make(chan error, 1)
			d[name] = done
			go func() { done <- fetch(ctx, name) }()
		}
	}
	return d
}

func (d downloads) wait(ctx context.Context, names []string) error {
	for _, name := range names {
		select {
		case err := <-d[name]:
			d[name] <- err // for the next stage that waits for it
			if err != nil {
				return fmt.Errorf("fetching %s: %w", name, err)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func fetch(ctx context.Context, name string) error {
	switch name {
	case "staticcheck":
		if _, err := os.Stat(staticcheckPath()); err == nil {
			return nil
		}
		return command(ctx, []string{"GOBIN=" + filepath.Dir(staticcheckPath())}, "go", "install", "honnef.co/go/tools/cmd/staticcheck@"+staticcheckVersion)
	case "dynamodb-local":
		return command(ctx, []string{"VACANCY_CACHE=" + cacheDir()}, "go", "run", "./tests/dynamolocal/fetch")
	case "opensearch":
		return command(ctx, []string{"VACANCY_CACHE=" + cacheDir()}, "go", "run", "./tests/opensearch/fetch")
	case "cdk":
		_, err := cdk.Install(ctx, cacheDir(), io.Discard)
		return err
	case "localstack":
		_, err := server.Install(ctx, cacheDir(), io.Discard)
		return err
	}
	return fmt.Errorf("nothing is called %q", name)
}
