package task

import (
	"bytes"

	"github.com/vacancy-host/vacancy/shared/store"
)

// taskPartition contains the documents of a task. The star stands for Ref.encode. Events sort
// before the head. A read of both therefore reads the head last, and the head is never older than
// the events.
const taskPartition = "task#*"

// Documents of tasks. Events, traces and configurations are sealed.
var (
	// HeadDocs contains the state of each task. The index lists the tasks of an owner at a vacant,
	// most recent status first.
	HeadDocs = store.DocKind[head]{
		Shape: store.Shape{Name: "head of a task", Partition: taskPartition, Sort: "head", Index: "tasks#*#*", Verify: store.VerifySkip},
		Codec: store.Codec[head]{Decode: decodeHead, Encode: encodeHead},
	}
	EventDocs = store.DocKind[[]byte]{
		Shape: store.Shape{Name: "event of a task", Partition: taskPartition, Sort: "e#*", Verify: store.VerifySkip},
		Codec: store.BytesCodec(),
	}
	// RecentDocs contains the turns of the last minutes, newest first, by the hash of payer, vacant
	// and message.
	RecentDocs = store.DocKind[recentEntry]{
		Shape: store.Shape{Name: "recent turn", Partition: "recent#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.JSONCodec[recentEntry](1),
	}
	// TraceDocs contains the sealed traces of dispatched tasks. They sort after the head, so
	// readers of the task do not read them.
	TraceDocs = store.DocKind[[]byte]{
		Shape: store.Shape{Name: "trace of a task", Partition: taskPartition, Sort: "trace#*", Verify: store.VerifySkip},
		Codec: store.BytesCodec(),
	}
	// LogDocs contains the sealed logs of dispatched tasks. The key of each document ends with the
	// number of its last event. The documents sort after the head.
	LogDocs = store.DocKind[[]byte]{
		Shape: store.Shape{Name: "log of a task", Partition: taskPartition, Sort: "log#*", Verify: store.VerifySkip},
		Codec: store.BytesCodec(),
	}
	// PushDocs contains the push configurations. The index lists the configurations whose
	// deliveries have not ended.
	PushDocs = store.DocKind[[]byte]{
		Shape: store.Shape{Name: "push configuration", Partition: taskPartition, Sort: "push#*", Index: "pushes", Verify: store.VerifySkip},
		Codec: store.BytesCodec(),
	}
	// BackgroundCountDocs contains the number of background turns of each vacant.
	BackgroundCountDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "count of turns", Partition: "turns#*", Sort: "background", Owner: store.OwnedByVacant, Verify: store.VerifySkip},
		Codec: store.CountCodec(),
	}
	// DispatchedDocs contains the dispatched tasks of an owner by id. The index lists the newest
	// first.
	DispatchedDocs = store.DocKind[dispatchedEntry]{
		Shape: store.Shape{Name: "dispatched task", Partition: "team#*", Sort: "*", Index: "team#*", Verify: store.VerifySkip},
		Codec: store.JSONCodec[dispatchedEntry](1),
	}
	// UnfinishedDocs contains the unfinished dispatched tasks of an account by id.
	UnfinishedDocs = store.DocKind[dispatchedEntry]{
		Shape: store.Shape{Name: "unfinished task", Partition: "open#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.JSONCodec[dispatchedEntry](1),
	}
	// RunningCountDocs contains the numbers of running background turns, per share and day.
	RunningCountDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "count of running turns", Partition: "running#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.CountCodec(),
	}
	// PushedByteDocs contains the numbers of pushed bytes, per task and per sender and hour.
	PushedByteDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "count of what was pushed", Partition: "pushed#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.CountCodec(),
	}
)

// Heads of dispatched tasks have a separate format. An earlier program would otherwise mistake a
// dispatched task for a task whose call is lost, and fail it. Such a program cannot read the new
// format, and leaves the task to this program.
var (
	plainHeadCodec      = store.JSONCodec[head](1)
	dispatchedHeadCodec = store.JSONCodec[head](2)
)

func decodeHead(d store.Doc) (head, error) {
	if bytes.HasPrefix(d.Data, []byte(`{"format":2,`)) {
		return dispatchedHeadCodec.Decode(d)
	}
	return plainHeadCodec.Decode(d)
}

func encodeHead(h head) ([]byte, error) {
	if h.Dispatch != nil {
		return dispatchedHeadCodec.Encode(h)
	}
	return plainHeadCodec.Encode(h)
}
