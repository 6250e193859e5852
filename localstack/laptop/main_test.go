package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestCommandRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, args := range [][]string{nil, {"sideways"}, {"up", "now"}, {"deploy", "dev", "more"}, {"deploy", "--context"}, {"deploy", "--domain=x"}} {
		if err := runCommand(t.Context(), args, new(bytes.Buffer)); !problem.Is(err, problem.Usage) {
			t.Errorf("command(%q) = %v, want Usage", args, err)
		}
	}
}

func TestDeployTakesAStageAndContextValues(t *testing.T) {
	for _, tt := range []struct {
		args []string
		name string
		want []string
	}{
		{nil, "dev", nil},
		{[]string{"try"}, "try", nil},
		{[]string{"--context", "worstDay=50", "try", "--context=rate="}, "try", []string{"--context", "worstDay=50", "--context", "rate="}},
	} {
		name, context, ok := parseDeployArgs(tt.args)
		if !ok || name != tt.name || !slices.Equal(context, tt.want) {
			t.Errorf("deployArgs(%q) = %q, %q, %t; want %q, %q", tt.args, name, context, ok, tt.name, tt.want)
		}
	}
}

func TestAStageOfNoSuchNameIsRefusedFirst(t *testing.T) {
	t.Setenv("VACANCY_CACHE", t.TempDir())
	if err := runCommand(t.Context(), []string{"deploy", "No_Stage"}, new(bytes.Buffer)); !problem.Is(err, problem.Usage) {
		t.Errorf("command(deploy No_Stage) = %v, want Usage", err)
	}
}

func TestWithoutAServerEachCommandSaysWhatToDo(t *testing.T) {
	t.Setenv("VACANCY_CACHE", t.TempDir())
	for _, name := range []string{"status", "deploy"} {
		if err := runCommand(t.Context(), []string{name}, new(bytes.Buffer)); !problem.Is(err, problem.Unavailable) || !strings.Contains(err.Error(), "localstack/up") {
			t.Errorf("command(%s) = %v, want Unavailable that names localstack/up", name, err)
		}
	}
	var out bytes.Buffer
	if err := runCommand(t.Context(), []string{"down"}, &out); err != nil || out.String() != "the server was not running\n" {
		t.Errorf("command(down) = %v, printed %q, want nothing done", err, out.String())
	}
}

func TestOutsideACheckoutTheCommandSaysSo(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := runCommand(t.Context(), []string{"status"}, new(bytes.Buffer)); !problem.Is(err, problem.Usage) || !strings.Contains(err.Error(), "checkout") {
		t.Errorf("command(status) = %v, want Usage that names the checkout", err)
	}
}
