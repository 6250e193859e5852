// Package settings reads an operator's settings of a stage: the context values of the CDK app, with
// defaults. A deployment with the settings that Read returns cannot fail because of their values.
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

type Settings struct {
	setting.Values
	Limits            cost.Limits       // derived from WorstDay, or set explicitly
	StoredContext     map[string]string // context values other than the defaults, which the stage stores
	FunctionVariables map[string]string // environment of functions; a missing variable means zero
}

func ContextNames() []string {
	return slices.Sorted(slices.Values(slices.Concat(setting.OperatorContexts(), setting.DeployContexts())))
}

// Read parses a context: values from cdk.json or, as strings, from the command line. The error
// names every wrong value. An unknown name with letters only is an error, because the names of
// other tools contain other characters.
func Read(context map[string]any, region string) (s Settings, err error) {
	var errs []error
	addError := func(name, want, got string) {
		errs = append(errs, fmt.Errorf("context value %s: expected %s, got %s", name, want, got))
	}
	contextTexts := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(context)) {
		switch text, ok := formatValue(context[name]); {
		case slices.Contains(ContextNames(), name) && ok:
			contextTexts[name] = text
		case slices.Contains(ContextNames(), name):
			contextTexts[name] = ""
			addError(name, "a text, a number, true or false", fmt.Sprintf("%.80v", context[name]))
		case lettersOnly.MatchString(name):
			addError(name, "one of "+strings.Join(ContextNames(), ", "), "an unknown name")
		}
	}
	values, invalid := setting.ReadContext(contextTexts)
	for _, invalidValue := range invalid {
		addError(invalidValue.Context, invalidValue.ExpectedValue(), fmt.Sprintf("%.80q", invalidValue.Text))
	}
	limitOptions, err := cost.NewLimitOptions(values, region)
	if err != nil {
		errs = append(errs, fmt.Errorf("context value %w", err))
	}
	s = Settings{Values: values, StoredContext: setting.OmitDefaults(contextTexts), FunctionVariables: functionVariables(contextTexts)}
	if errs = append(errs, s.checkCombinations()...); errs == nil {
		if s.Limits, err = cost.DeriveLimits(limitOptions); err != nil {
			errs = append(errs, fmt.Errorf("context value %w", err))
		}
	}
	return s, errors.Join(errs...)
}

var lettersOnly = regexp.MustCompile(`^[A-Za-z]+$`)

func formatValue(v any) (text string, ok bool) {
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

// functionVariables omits settings with their zero value, unless functions require them.
func functionVariables(texts map[string]string) map[string]string {
	env := map[string]string{}
	for _, row := range setting.Table() {
		text, isSet := texts[row.Context]
		if !isSet {
			text = row.Default
		}
		isZero := text == "" || row.Type != "string" && (text == "0" || text == "false")
		if row.Context != "" && row.Variable != "" && (row.Required || !isZero) {
			env[row.Variable] = text
		}
	}
	return env
}

func (s Settings) checkCombinations() (errs []error) {
	reportIf := func(isInvalid bool, message string) {
		if isInvalid {
			errs = append(errs, errors.New(message))
		}
	}
	reportIf(s.Domain != "" && s.Certificate == "", "domain: needs context value certificate, the ARN of its certificate in us-east-1")
	reportIf(s.Certificate != "" && s.Domain == "", "certificate: needs context value domain, the domain name of the certificate")
	reportIf(s.Domain != "" && !s.HasEdge, "domain: needs edge=true, because a Function URL cannot have a custom domain")
	reportIf(s.WAF && !s.HasEdge, "waf: needs edge=true, because a Function URL cannot have a web ACL")
	reportIf(s.EdgeSecretVersion != "" && !s.HasEdge, "edgeSecretVersion: needs edge=true")
	reportIf(s.PreviousEdgeSecretVersion != "" && s.EdgeSecretVersion == "", "edgeSecretBefore: needs context value edgeSecretVersion, the version that replaces it")
	return errs
}

func (s Settings) CheckRegion(region string) error {
	const edgeRegion = "us-east-1"
	if s.WAF && region != edgeRegion {
		return fmt.Errorf("waf: expected a stage in %s, where CloudFront's web ACLs must be, got Region %q", edgeRegion, region)
	}
	return nil
}

func (s Settings) ResourceName(shortName string) string {
	return "vacancy-" + s.Stage + "-" + shortName
}

func (s Settings) LogGroup(function string) string { return "/vacancy/" + s.Stage + "/" + function }
