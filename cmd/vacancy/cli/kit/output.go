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

// Result is the result of a command. Its fields are the JSON object, and Print writes it for
// people.
type Result interface {
	Print(w io.Writer)
}

func (a *App) Print(value any, print func(io.Writer)) error {
	if a.JSON {
		return WriteJSON(a.Out, value)
	}
	print(a.Terminal(a.Out))
	return nil
}

func (a *App) Show(r Result) error { return a.Print(r, r.Print) }

// Note prints a remark for people on standard error. The remark is suppressed if --json is set, so
// the result must contain the same fact for programs.
func (a *App) Note(format string, args ...any) {
	switch {
	case a.JSON:
		return
	case a.logForm == logJSON:
		a.PlainLog().Info(fmt.Sprintf(format, args...))
		return
	}
	fmt.Fprintf(a.Err, format+"\n", args...)
}

// WriteJSON writes v as one line of JSON. It leaves <, > and & unchanged. It escapes the characters
// that control a terminal, because files and pipes are often shown on a terminal later.
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

// errorObject is the JSON form of an error.
type errorObject struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"`
	Want   string `json:"want,omitempty"`
	Got    string `json:"got,omitempty"`
	Hint   string `json:"hint,omitempty"`
	Exit   int    `json:"exit"`
}

// errorReport is printed on standard error with --json. Call is the result of the failed call.
type errorReport struct {
	Error errorObject `json:"error"`
	Call  any         `json:"call,omitempty"`
}

// failedCall is the error of a call that has a result.
type failedCall interface {
	error
	FailedCall() any
}

func (a *App) fail(cmd *cobra.Command, err error) int {
	if r := new(Reported); errors.As(err, &r) {
		return cmp.Or(r.Exit, problem.ExitFailed)
	}
	p := ProblemOf(err)
	exit := p.Kind.Row().Exit
	// Unlike a response to a caller, an error on the command line may show its causes.
	a.running = cmd
	o := errorObject{Code: p.Kind.String(), Detail: FullText(p), Field: p.Field, Want: p.Want, Got: p.Got, Hint: a.Hint(err), Exit: exit}
	if a.JSON {
		report := errorReport{Error: o}
		if c := failedCall(nil); errors.As(err, &c) {
			report.Call = c.FailedCall()
		}
		_ = WriteJSON(a.Err, report)
		return exit
	}
	if a.logForm == logJSON {
		a.PlainLog().Error(cmd.CommandPath()+" ends", slog.String("cause", o.Detail), slog.String("code", o.Code), slog.String("hint", o.Hint), slog.Int("exit", exit))
		return exit
	}
	// If the field at fault has the command's name, print the name once, as in
	// "vacancy plain: expected open, off or shared".
	errs := a.Terminal(a.Err)
	fmt.Fprintf(errs, "%s %s\n", Paint(errs, Bad, cmd.CommandPath()+":"), Printable(strings.TrimPrefix(o.Detail, cmd.Name()+": ")))
	if o.Hint != "" {
		fmt.Fprintf(errs, "%s %s\n", Paint(errs, Bold, "try:"), Printable(o.Hint))
	}
	return exit
}

// Reported is an error that standard output already shows. It only sets the exit code.
type Reported struct {
	Exit int // problem.ExitFailed if it is 0
}

func (*Reported) Error() string { return "broken" }

func ProblemOf(err error) *problem.Error {
	if e := new(problem.Error); errors.As(err, &e) {
		return e
	}
	var file *fs.PathError
	switch {
	case errors.As(err, &file) && errors.Is(err, fs.ErrNotExist):
		return problem.New(problem.NotFound, "there is no file or folder %s", file.Path)
	case errors.Is(err, fs.ErrNotExist):
		return problem.New(problem.NotFound, "%s", err)
	case errors.Is(err, fs.ErrExist):
		return problem.New(problem.Conflict, "%s", err)
	}
	return problem.New(problem.Internal, "%s", problem.PlainMessage(err))
}

func FullText(p *problem.Error) string {
	text := p.Text()
	if file, ok := p.Err.(*fs.PathError); ok && strings.Contains(text, file.Err.Error()) {
		return text // the cause names the file again
	}
	for cause := p.Cause(); cause != "" && !strings.Contains(text, cause); cause = p.Cause() {
		next, ok := p.Err.(*problem.Error)
		switch {
		case !ok:
			return text + ": " + cause
		case !strings.Contains(text, next.Text()):
			return text + ": " + FullText(next)
		}
		p = next
	}
	return text
}

// Printable makes foreign text safe for one line of a terminal. It escapes control characters,
// which may move the cursor or hide text, and characters that change the direction of writing.
func Printable(s string) string { return EscapeControls(s, "") }

// AnswerText returns a vacant's answer for output. On a terminal, control characters other than
// line ends and tabs are escaped. In a file or pipe, the answer is unchanged.
func (a *App) AnswerText(s string) string {
	if isTerminal(a.Out) {
		return EscapeControls(s, "\n\t")
	}
	return s
}
