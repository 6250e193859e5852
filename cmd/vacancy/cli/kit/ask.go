package kit

import (
	"context"
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func (a *App) Ask(ctx context.Context, question, word string) error {
	got, err := a.AskLine(ctx, question)
	if err != nil {
		return err
	}
	if got != word {
		return problem.New(problem.Usage, "not confirmed: nothing was done")
	}
	return nil
}

// AskLine prints a question on standard error and returns the trimmed answer, or "" at the end of
// the input. It also returns when the person interrupts, while a read from a terminal would go on.
func (a *App) AskLine(ctx context.Context, question string) (string, error) {
	fmt.Fprintf(a.Err, "%s ", question)
	type line struct {
		text string
		err  error
	}
	got := make(chan line, 1)
	go func() {
		s, err := a.In.ReadString('\n')
		got <- line{s, err}
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.Err)
		return "", problem.New(problem.Canceled, "interrupted")
	case l := <-got:
		if l.err != nil {
			fmt.Fprintln(a.Err)
		}
		return strings.TrimSpace(l.text), nil
	}
}
