package kit

import (
	"context"
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// AskToConfirm asks a question, and returns an error unless the user answers with word.
func (a *App) AskToConfirm(ctx context.Context, question, word string) error {
	answer, err := a.AskLine(ctx, question)
	if err != nil {
		return err
	}
	if answer != word {
		return problem.New(problem.Usage, "not confirmed: nothing was done")
	}
	return nil
}

// AskLine prints a question on standard error and returns the trimmed answer, or "" at the end of
// the input. If ctx ends first, the read continues, and the next call of AskLine returns its line.
func (a *App) AskLine(ctx context.Context, question string) (string, error) {
	fmt.Fprintf(a.Err, "%s ", question)
	if a.pendingLine == nil {
		a.pendingLine = make(chan inputLine, 1)
		go func(lines chan<- inputLine) {
			s, err := a.In.ReadString('\n')
			lines <- inputLine{s, err}
		}(a.pendingLine)
	}
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.Err)
		return "", problem.New(problem.Canceled, "interrupted")
	case l := <-a.pendingLine:
		a.pendingLine = nil
		if l.err != nil {
			fmt.Fprintln(a.Err)
		}
		return strings.TrimSpace(l.text), nil
	}
}

type inputLine struct {
	text string
	err  error
}
