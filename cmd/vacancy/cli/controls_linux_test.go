package cli

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/operations"
)

// steering is a text of others with what may steer a terminal.
const steering = "x\u009b31m\u202eevil\u2066\u200f\u061c\u0085\x1b[2J\x1b]0;title\x07\r\n"

// fill sets all strings below v to steering, with one element in each list.
func fill(v reflect.Value, depth int) {
	if depth > 12 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(steering)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(7)
	case reflect.Uint64, reflect.Uint32, reflect.Uint:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			b, _ := json.Marshal(map[string]string{"description": steering})
			v.SetBytes(b)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			// The end of a list has no next page.
			if f := v.Field(i); f.CanSet() && !strings.HasPrefix(strings.ToLower(v.Type().Field(i).Name), "next") {
				fill(f, depth+1)
			}
		}
	}
}

// hostileHost is a host whose answers have steering in every text, or that refuses all requests with it.
func hostileHost(t *testing.T, refuses bool) string {
	patterns := map[*regexp.Regexp]op.Spec{}
	for _, s := range operations.All() {
		path := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(regexp.QuoteMeta(s.Path), "")
		path = regexp.MustCompile(`\\\{[^}]*\\\}`).ReplaceAllString(path, "[^/]+")
		patterns[regexp.MustCompile("^"+s.Method+" "+path+"$")] = s
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for pattern, s := range patterns {
			if refuses || s.Out == nil || !pattern.MatchString(r.Method+" "+r.URL.Path) {
				continue
			}
			v := reflect.New(s.Out).Elem()
			fill(v, 0)
			if b, err := json.Marshal(v.Interface()); err == nil {
				_, _ = w.Write(b)
				return
			}
		}
		w.WriteHeader(http.StatusConflict)
		b, _ := json.Marshal(map[string]any{"error": "conflict", "detail": steering, "field": steering, "got": steering})
		_, _ = w.Write(b)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestNoCommandShowsWhatSteersATerminal(t *testing.T) {
	unasked := []string{"dev", "serve", "watch", "mcp", "a2a", "deploy", "destroy", "completion", "help", "restore", "backup", "new", "init"}
	shades := regexp.MustCompile("\x1b\\[[0-9]+m|\r\x1b\\[K")
	answered := 0
	for _, refuses := range []bool{false, true} {
		url := hostileHost(t, refuses)
		for _, path := range commands() {
			if slices.Contains(unasked, path[0]) || slices.Contains(topics, path[0]) {
				continue
			}
			c, _, err := rootCommand(&kit.App{}).Find(path)
			if err != nil || c.HasSubCommands() && c.Name() != "bookings" {
				continue
			}
			line := slices.Clone(path)
			for _, word := range strings.Fields(c.Use)[1:] {
				if strings.HasPrefix(word, "-") || word == "<" {
					break
				}
				line = append(line, map[string]string{"DOLLARS": "1", "URL": url, "SETTING": "x=y"}[strings.Trim(strings.TrimSuffix(word, "..."), "[]")])
				if line[len(line)-1] == "" {
					line[len(line)-1] = "x"
				}
			}
			if c.Flags().Lookup("yes") != nil {
				line = append(line, "--yes")
			}
			for _, also := range [][]string{nil, {"--json"}} {
				s := newShell(t)
				env := map[string]string{"VACANCY_HOST": url, "VACANCY_OPERATOR_KEY": "key", "VACANCY_KEY": "vac_live_key", "VACANCY_REGISTRY": url, "HOME": s.dataHome}
				line := slices.Concat(line, also)
				got := s.onTerminal(120, env, line...)
				if also == nil {
					// In a pipe only Printable escapes: no printer may rely on the screen.
					maps.Copy(s.env, env)
					_, out, errs := s.run("", line...)
					got += out + errs
				}
				if strings.Contains(got, "evil") {
					answered++
				}
				if rest := shades.ReplaceAllString(got, ""); strings.ContainsFunc(rest, func(r rune) bool {
					return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
				}) {
					t.Errorf("vacancy %s shows %q", strings.Join(line, " "), got)
				}
				if also == nil || path[0] == "version" {
					continue
				}
				for d := json.NewDecoder(strings.NewReader(got)); ; {
					var v any
					if err := d.Decode(&v); errors.Is(err, io.EOF) {
						break
					} else if err != nil {
						t.Errorf("vacancy %s shows %q, which is not JSON: %v", strings.Join(line, " "), got, err)
						break
					}
				}
			}
		}
	}
	t.Logf("%d command lines showed a text of the host", answered)
	if answered < 100 {
		t.Errorf("%d command lines showed a text of the host, want at least 100: this proves little", answered)
	}
}

func TestAnswersAreExactInFilesAndSafeOnTerminals(t *testing.T) {
	s := newShell(t)
	s.dev()
	const text = "a\u009b31mb\u202ec\x1b[2Jd\ne"
	safe := strings.NewReplacer("\u009b", `\u009b`, "\u202e", `\u202e`, "\x1b", `\u001b`)
	if got := s.must("call", "demo", text); !strings.HasSuffix(got, ": "+text+"\n") {
		t.Errorf("call in a pipe = %q, want the answer unchanged", got)
	}
	if got := s.onTerminal(200, map[string]string{"NO_COLOR": "1"}, "call", "demo", text); !strings.HasSuffix(got, ": "+safe.Replace(text)+"\n") {
		t.Errorf("call on a terminal = %q, want its controls escaped", got)
	}
	for where, got := range map[string]string{"a pipe": s.must("call", "demo", text, "--json"), "a terminal": s.onTerminal(200, nil, "call", "demo", text, "--json")} {
		var answer struct{ Text string }
		if err := json.Unmarshal([]byte(got), &answer); err != nil || !strings.HasSuffix(answer.Text, ": "+text) || strings.ContainsAny(got, "\u009b\u202e\x1b") {
			t.Errorf("call --json in %s = %q, %v; want the same value without controls", where, got, err)
		}
	}
}
