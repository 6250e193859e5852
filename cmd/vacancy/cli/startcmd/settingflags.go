package startcmd

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// settingFlags are the flags for a host's settings.
type settingFlags []*settingFlag

func (f *settingFlags) register(fs *pflag.FlagSet, command string) {
	for _, row := range setting.Table() {
		if row.HasFlag(command) {
			flag := &settingFlag{row: row, text: row.Default}
			fs.Var(flag, row.Flag, row.Help)
			*f = append(*f, flag)
		}
	}
}

func (f settingFlags) parse() (setting.Host, error) {
	var v setting.Values
	var errs []error
	for _, flag := range f {
		for _, part := range flag.row.ReadFlag(flag.text, &v) {
			errs = append(errs, &problem.Error{Kind: problem.Usage, Field: "--" + flag.row.Flag, Want: flag.row.ExpectedFlagValue(), Got: fmt.Sprintf("%.40q", part)})
		}
	}
	return v.Host, errors.Join(errs...)
}

// settingFlag implements pflag.Value.
type settingFlag struct {
	row  setting.Setting
	text string
}

func (f *settingFlag) String() string { return f.text }

func (f *settingFlag) Type() string { return f.row.Type }

func (f *settingFlag) Set(text string) error {
	f.text = text
	return nil
}
