package startcmd

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// settingFlags are a command's flags for settings of its host.
type settingFlags []*settingFlag

func (f *settingFlags) add(fs *pflag.FlagSet, command string) {
	for _, row := range setting.Table() {
		if row.FlagOf(command) {
			one := &settingFlag{row: row, text: row.Default}
			fs.Var(one, row.Flag, row.Help)
			*f = append(*f, one)
		}
	}
}

func (f settingFlags) read() (setting.Host, error) {
	var v setting.Values
	var errs []error
	for _, one := range f {
		for _, part := range one.row.ReadFlag(one.text, &v) {
			errs = append(errs, &problem.Error{Kind: problem.Usage, Field: "--" + one.row.Flag, Want: one.row.FlagExpects(), Got: fmt.Sprintf("%.40q", part)})
		}
	}
	return v.Host, errors.Join(errs...)
}

// settingFlag is a flag with its string value. It implements pflag.Value.
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
