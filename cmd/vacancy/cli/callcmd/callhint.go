package callcmd

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// callHint explains a failed call to the operator of the host. The admin socket
// shows what callers may not see: that the vacant has children, one of which
// may have failed, or that it is a closed child, which looks like an unknown
// vacant in public.
func callHint(a *kit.App, ctx context.Context, err error, f callFlags, t dispatch.Target, ways []string) error {
	if h := new(kit.Hinted); errors.As(err, &h) {
		return err
	}
	if errors.Is(err, dispatch.ErrBusy) {
		return kit.WithHint(err, "%s", a.AgainWith("--as", "OTHER"))
	}
	kind := problem.Of(err).Kind
	if kind == problem.PaymentRequired {
		return payHint(a, ctx, err, f, t.ID, t.URL, ways)
	}
	if kind == problem.Pending || kind == problem.Unavailable {
		return diskHint(a, ctx, err, f.where)
	}
	failed, absent := kind.IsFailure() || kind == problem.Deadline, kind == problem.Misdirected
	if !failed && !absent {
		return err
	}
	plane := a.AdminAt(f.where)
	if plane == nil {
		return err
	}
	v, showErr := admin.ShowVacant.Call(ctx, plane, admin.One{Vacant: t.ID.String()})
	if showErr != nil {
		return err
	}
	if absent && v.Closed && v.Parent != nil {
		parent := v.Parent.Short()
		if p, showErr := admin.ShowVacant.Call(ctx, plane, admin.One{Vacant: v.Parent.String()}); showErr == nil {
			parent = p.Name
		}
		return kit.WithHint(err, `vacancy graduate %s --capability "TEXT": it is a closed child of %s, and until it graduates only its parent and the parent's other children may call it`, v.Name, parent)
	}
	if page, listErr := admin.ListChildren.Call(ctx, plane, admin.ChildList{One: admin.One{Vacant: v.ID.String()}, Cursor: ""}); failed && listErr == nil && len(page.Children) > 0 {
		return kit.WithHint(err, "vacancy children %s", v.Name)
	}
	// The text ends with "the time that the host allows" or "that the vacant allows"; other times do not depend on work.
	if kind == problem.Deadline && strings.Contains(problem.Of(err).Text(), " allows") {
		if work, _ := time.ParseDuration(v.Work); work < longerWork {
			return kit.WithHint(err, "vacancy update %s work=%dm", v.Name, longerWork/time.Minute)
		}
	}
	if failed && f.where.IsLocal(a) {
		return kit.WithHint(err, "vacancy logs %s --failed%s", v.Name, kit.DataArg(f.where.Data))
	}
	return err
}

// longerWork is the time that is suggested for a vacant whose calls take too long.
const longerWork = 2 * time.Minute

// hintTime bounds the search for a hint.
const hintTime = 2 * time.Second

// diskHint explains a call without an outcome at a host on this machine whose disk is full.
func diskHint(a *kit.App, ctx context.Context, err error, w kit.Where) error {
	if !w.IsLocal(a) {
		return err
	}
	plane := a.AdminAt(w)
	if plane == nil {
		return err
	}
	// The time of the call may be over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hintTime)
	defer cancel()
	s, askErr := admin.GetStatus.Call(ctx, plane, op.None{})
	if askErr != nil || !s.HasLittleRoom() {
		return err
	}
	return kit.WithHint(err, "vacancy status%s: the disk of the host's data has only %d MB left", kit.DataArg(w.Data), s.FreeBytes>>20)
}
