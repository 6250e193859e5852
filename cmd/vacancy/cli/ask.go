package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// ask prints a question on standard error and requires exactly the given word.
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

// askLine prints a question on standard error and returns the trimmed answer,
// "" at the end of the input. It returns when the person interrupts; a read
// from a terminal would not.
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
