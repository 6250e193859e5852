package task

import (
	"bytes"

	"github.com/vacancy-host/vacancy/shared/store"
)

// taskPartition has what belongs to a task: the star is Ref.message. Events sort before the
// head, so a read of both sees no event that the head does not know of.
const taskPartition = "task#*"

// The documents of tasks. Events, traces and configurations are sealed.
var (
	// HeadDocs hold the state of each task. The index lists the tasks of an owner at a
	// vacant, the newest status first.
	HeadDocs = store.Kind[head]{
		Shape: store.Shape{Name: "head of a task", Partition: taskPartition, Sort: "head", Index: "tasks#*#*", Verify: store.Unread},
		Codec: store.Codec[head]{Decode: decodeHead, Encode: encodeHead},
	}
	EventDocs = store.Kind[[]byte]{
		Shape: store.Shape{Name: "event of a task", Partition: taskPartition, Sort: "e#*", Verify: store.Unread},
		Codec: store.Bytes(),
	}
	// RecentDocs name the turns of the last minutes by the hash of payer, vacant and message, the newest
	// first.
	RecentDocs = store.Kind[recent]{
		Shape: store.Shape{Name: "recent turn", Partition: "recent#*", Sort: "*", Verify: store.Unread},
		Codec: store.JSON[recent](1),
	}
	// TraceDocs have the trace of a dispatched task, sealed. They sort after the head, so readers of the task do not read
	// them.
	TraceDocs = store.Kind[[]byte]{
		Shape: store.Shape{Name: "trace of a task", Partition: taskPartition, Sort: "trace#*", Verify: store.Unread},
		Codec: store.Bytes(),
	}
	// LogDocs have the log of a dispatched task, sealed, by the numbers of their last events. They sort after the head.
	LogDocs = store.Kind[[]byte]{
		Shape: store.Shape{Name: "log of a task", Partition: taskPartition, Sort: "log#*", Verify: store.Unread},
		Codec: store.Bytes(),
	}
	// PushDocs are the push configurations. The index lists those whose deliveries have not
	// ended.
	PushDocs = store.Kind[[]byte]{
		Shape: store.Shape{Name: "push configuration", Partition: taskPartition, Sort: "push#*", Index: "pushes", Verify: store.Unread},
		Codec: store.Bytes(),
	}
	// TurnDocs count the turns in the background of a vacant.
	TurnDocs = store.Kind[int64]{
		Shape: store.Shape{Name: "count of turns", Partition: "turns#*", Sort: "background", Of: store.OfVacant, Verify: store.Unread},
		Codec: store.Count(),
	}
	// DispatchedDocs list the dispatched tasks of an owner by their ids. The index lists the newest first.
	DispatchedDocs = store.Kind[dispatchedTask]{
		Shape: store.Shape{Name: "dispatched task", Partition: "team#*", Sort: "*", Index: "team#*", Verify: store.Unread},
		Codec: store.JSON[dispatchedTask](1),
	}
	// UnfinishedDocs are the dispatched tasks of an account that have not ended, by their ids.
	UnfinishedDocs = store.Kind[dispatchedTask]{
		Shape: store.Shape{Name: "unfinished task", Partition: "open#*", Sort: "*", Verify: store.Unread},
		Codec: store.JSON[dispatchedTask](1),
	}
	// RunningDocs count the turns that run in the background, by share and day.
	RunningDocs = store.Kind[int64]{
		Shape: store.Shape{Name: "count of running turns", Partition: "running#*", Sort: "*", Verify: store.Unread},
		Codec: store.Count(),
	}
	// PushedDocs count what was pushed: of a task, and of a sender by the hour.
	PushedDocs = store.Kind[int64]{
		Shape: store.Shape{Name: "count of what was pushed", Partition: "pushed#*", Sort: "*", Verify: store.Unread},
		Codec: store.Count(),
	}
)

// Heads of dispatched tasks have a format of their own. An earlier program would otherwise take a dispatched task for a
// task whose call is lost, and fail it. Such a program refuses to read the new format, and leaves the task to this one.
var (
	plainHeads      = store.JSON[head](1)
	dispatchedHeads = store.JSON[head](2)
)

func decodeHead(d store.Doc) (head, error) {
	if bytes.HasPrefix(d.Data, []byte(`{"format":2,`)) {
		return dispatchedHeads.Decode(d)
	}
	return plainHeads.Decode(d)
}

func encodeHead(h head) ([]byte, error) {
	if h.Dispatch != nil {
		return dispatchedHeads.Encode(h)
	}
	return plainHeads.Encode(h)
}
