// Package settings reads an operator's settings of a stage: the context values of the CDK app, with
// defaults. For each wrong value it reports the expected value and the given value.
//
// A deployment with the settings that Read returns cannot fail because of their values.
package settings

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/front/setting"
)

// Settings contains the settings of one stage.
type Settings struct {
	setting.Values
	Limits    cost.Limits       // derived from WorstDay, or set explicitly
	Stored    map[string]string // context values other than the defaults, which the stage stores
	Variables map[string]string // environment of functions; a missing variable means zero
}

func Names() []string {
	return slices.Sorted(slices.Values(slices.Concat(setting.OperatorContexts(), setting.SetByDeploy())))
}

// Read parses a context: values from cdk.json or, as strings, from the command line. Other tools
// store values in the same context under names with characters other than letters. An unknown name
// with letters only is therefore a misspelling and an error. The Region of the stacks determines
// the prices of worstDay. The error names every wrong value.
func Read(context map[string]any, region string) (s Settings, err error) {
	var errs []error
	wrong := func(name, want, got string) {
		errs = append(errs, fmt.Errorf("context value %s: expected %s, got %s", name, want, got))
	}
	texts := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(context)) {
		switch text, ok := textOf(context[name]); {
		case slices.Contains(Names(), name) && ok:
			texts[name] = text
		case slices.Contains(Names(), name):
			texts[name] = ""
			wrong(name, "a text, a number, true or false", fmt.Sprintf("%.80v", context[name]))
		case word.MatchString(name):
			wrong(name, "one of "+strings.Join(Names(), ", "), "an unknown name")
		}
	}
	values, refused := setting.ReadContext(texts)
	for _, w := range refused {
		wrong(w.Context, w.Expects(), fmt.Sprintf("%.80q", w.Text))
	}
	choice, err := cost.ChoiceOf(values, region)
	if err != nil {
		errs = append(errs, fmt.Errorf("context value %w", err))
	}
	s = Settings{Values: values, Stored: setting.OmitDefaults(texts), Variables: variables(texts)}
	if errs = append(errs, s.checkCombinations()...); errs == nil {
		if s.Limits, err = cost.Derive(choice); err != nil {
			errs = append(errs, fmt.Errorf("context value %w", err))
		}
	}
	return s, errors.Join(errs...)
}

var word = regexp.MustCompile(`^[A-Za-z]+$`)

func textOf(v any) (text string, ok bool) {
	// The command line passes every value as text. cdk.json has JSON values.
	switch v := v.(type) {
	case nil:
		return "", true
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int:
		return strconv.Itoa(v), true
	case float64: // JSON numbers decode as float64
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}

// variables returns the environment variables by which functions read settings. A setting with its
// zero value has no variable, unless functions require it.
func variables(texts map[string]string) map[string]string {
	told := map[string]string{}
	for _, row := range setting.Table() {
		text, given := texts[row.Context]
		if !given {
			text = row.Default
		}
		zero := text == "" || row.Type != "string" && (text == "0" || text == "false")
		if row.Context != "" && row.Variable != "" && (row.Needed || !zero) {
			told[row.Variable] = text
		}
	}
	return told
}

func (s Settings) checkCombinations() (errs []error) {
	reportIf := func(bad bool, text string) {
		if bad {
			errs = append(errs, errors.New(text))
		}
	}
	reportIf(s.Domain != "" && s.Certificate == "", "domain: needs context value certificate, the ARN of its certificate in us-east-1")
	reportIf(s.Certificate != "" && s.Domain == "", "certificate: needs context value domain, the name that it is for")
	reportIf(s.Domain != "" && !s.Edge, "domain: needs edge=true, because a Function URL cannot have a custom domain")
	reportIf(s.WAF && !s.Edge, "waf: needs edge=true, because a Function URL cannot have a web ACL")
	reportIf(s.EdgeSecretVersion != "" && !s.Edge, "edgeSecretVersion: needs edge=true")
	reportIf(s.EdgeSecretBefore != "" && s.EdgeSecretVersion == "", "edgeSecretBefore: needs context value edgeSecretVersion, the version that replaces it")
	return errs
}

func (s Settings) InRegion(region string) error {
	const edges = "us-east-1"
	if s.WAF && region != edges {
		return fmt.Errorf("waf: expected a stage in %s, where CloudFront's web ACLs live, got Region %q", edges, region)
	}
	return nil
}

func (s Settings) Name(thing string) string { return "vacancy-" + s.Stage + "-" + thing }

func (s Settings) LogGroup(function string) string { return "/vacancy/" + s.Stage + "/" + function }
