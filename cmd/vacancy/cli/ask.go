package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// ask puts a question on standard error and wants exactly the given word.
func (a *app) ask(ctx context.Context, question, word string) error {
	got, err := a.askLine(ctx, question)
	if err != nil {
		return err
	}
	if got != word {
		return problem.New(problem.Usage, "not confirmed: nothing was done")
	}
	return nil
}

// askLine puts a question on standard error and returns the answer without the
// space around it; an input that has ended answers nothing. It gives up when
// the person interrupts: a read from a terminal does not end by itself then.
func (a *app) askLine(ctx context.Context, question string) (string, error) {
	fmt.Fprintf(a.err, "%s ", question)
	type line struct {
		text string
		err  error
	}
	got := make(chan line, 1)
	go func() {
		s, err := a.in.ReadString('\n')
		got <- line{s, err}
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.err)
		return "", problem.New(problem.Canceled, "interrupted")
	case l := <-got:
		if l.err != nil {
			fmt.Fprintln(a.err)
		}
		return strings.TrimSpace(l.text), nil
	}
}
