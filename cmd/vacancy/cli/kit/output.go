package kit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Result is the result of a command. Print prints it for people.
type Result interface {
	Print(w io.Writer)
}

func (a *App) Print(value any, printText func(io.Writer)) error {
	if a.JSON {
		return WriteJSON(a.Out, value)
	}
	printText(a.Terminal(a.Out))
	return nil
}

func (a *App) PrintResult(r Result) error { return a.Print(r, r.Print) }

// PrintNote prints a remark on standard error unless --json is set. The result must contain the
// same fact for programs.
func (a *App) PrintNote(format string, args ...any) {
	switch {
	case a.JSON:
		return
	case a.logForm == logJSON:
		a.StderrLogger().Info(fmt.Sprintf(format, args...))
		return
	}
	fmt.Fprintf(a.Err, format+"\n", args...)
}

// WriteJSON writes v as one line of JSON. It escapes the characters that control a terminal,
// because files and pipes are often shown on a terminal later.
func WriteJSON(w io.Writer, v any) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, EscapeControls(b.String(), "\n"))
	return err
}

type errorObject struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"`
	Want   string `json:"want,omitempty"`
	Got    string `json:"got,omitempty"`
	Hint   string `json:"hint,omitempty"`
	Exit   int    `json:"exit"`
}

type errorReport struct {
	Error errorObject `json:"error"`
	Call  any         `json:"call,omitempty"`
}

type failedCall interface {
	error
	FailedCall() any
}

func (a *App) reportError(cmd *cobra.Command, err error) int {
	if r := new(ReportedError); errors.As(err, &r) {
		return cmp.Or(r.ExitCode, problem.ExitFailed)
	}
	p := ToProblem(err)
	exit := p.Kind.Forms().ExitCode
	a.currentCommand = cmd
	object := errorObject{Code: p.Kind.String(), Detail: TextWithCauses(p), Field: p.Field, Want: p.Want, Got: p.Got, Hint: a.Hint(err), Exit: exit}
	if a.JSON {
		report := errorReport{Error: object}
		if c := failedCall(nil); errors.As(err, &c) {
			report.Call = c.FailedCall()
		}
		_ = WriteJSON(a.Err, report)
		return exit
	}
	if a.logForm == logJSON {
		a.StderrLogger().Error(cmd.CommandPath()+" ends", slog.String("cause", object.Detail), slog.String("code", object.Code), slog.String("hint", object.Hint), slog.Int("exit", exit))
		return exit
	}
	// If the invalid field has the command's name, the name is printed only once.
	stderr := a.Terminal(a.Err)
	fmt.Fprintf(stderr, "%s %s\n", Paint(stderr, Bad, cmd.CommandPath()+":"), EscapeLine(strings.TrimPrefix(object.Detail, cmd.Name()+": ")))
	if object.Hint != "" {
		fmt.Fprintf(stderr, "%s %s\n", Paint(stderr, Bold, "try:"), EscapeLine(object.Hint))
	}
	return exit
}

// ReportedError is an error that the output already shows. It only sets the exit code.
type ReportedError struct {
	ExitCode int // problem.ExitFailed if 0
}

func (*ReportedError) Error() string { return "broken" }

func ToProblem(err error) *problem.Error {
	if e := new(problem.Error); errors.As(err, &e) {
		return e
	}
	var pathErr *fs.PathError
	switch {
	case errors.As(err, &pathErr) && errors.Is(err, fs.ErrNotExist):
		return problem.New(problem.NotFound, "there is no file or folder %s", pathErr.Path)
	case errors.Is(err, fs.ErrNotExist):
		return problem.New(problem.NotFound, "%s", err)
	case errors.Is(err, fs.ErrExist):
		return problem.New(problem.Conflict, "%s", err)
	}
	return problem.New(problem.Internal, "%s", problem.PlainMessage(err))
}

func TextWithCauses(p *problem.Error) string {
	text := p.Text()
	if pathErr, ok := p.Err.(*fs.PathError); ok && strings.Contains(text, pathErr.Err.Error()) {
		return text // the cause names the file again
	}
	for cause := p.Cause(); cause != "" && !strings.Contains(text, cause); cause = p.Cause() {
		next, ok := p.Err.(*problem.Error)
		switch {
		case !ok:
			return text + ": " + cause
		case !strings.Contains(text, next.Text()):
			return text + ": " + TextWithCauses(next)
		}
		p = next
	}
	return text
}

// EscapeLine makes foreign text safe for one line of a terminal. Control characters could move the
// cursor or hide text.
func EscapeLine(s string) string { return EscapeControls(s, "") }

// FormatAnswer returns the answer of a vacant for output. It escapes control characters only for a
// terminal.
func (a *App) FormatAnswer(s string) string {
	if isTerminal(a.Out) {
		return EscapeControls(s, "\n\t")
	}
	return s
}
