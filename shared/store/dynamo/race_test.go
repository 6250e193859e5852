package dynamo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
)

const (
	processes         = 4
	writersPerProcess = 16

	// racerConfig turns this test binary into one of the processes.
	racerConfig = "VACANCY_TEST_RACER"
)

// racer is a process's configuration of the race.
type racer struct {
	Endpoint string
	Tables   dynamo.TableNames
	Stream   []byte
	Name     int
}

// round is the result of one round in one process.
type round struct {
	Accepted []string // write ids
	Refused  []string // the occupants' write ids, as reported to writers that were told Taken
	Failed   []string // anything else
}

func TestMain(m *testing.M) {
	config := os.Getenv(racerConfig)
	if config == "" {
		os.Exit(m.Run())
	}
	var r racer
	if err := json.Unmarshal([]byte(config), &r); err != nil {
		panic(err)
	}
	if err := r.run(os.Stdin, os.Stdout); err != nil {
		panic(err)
	}
}

// run writes at each position that it is given, with all its writers at once.
func (r racer) run(in io.Reader, out io.Writer) error {
	s := dynamo.New(dynamolocal.Client(r.Endpoint), r.Tables)
	positions, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var position uint64
		if err := positions.Decode(&position); err != nil {
			return errors.Join(s.Close(), ignore(err, io.EOF))
		}
		if err := answers.Encode(r.race(s, position)); err != nil {
			return err
		}
	}
}

func (r racer) race(s *dynamo.Store, position uint64) round {
	var out round
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range writersPerProcess {
		wg.Go(func() {
			a := store.Append{Stream: store.Stream(r.Stream), Position: position, WriteID: newAttempt(),
				Data: fmt.Appendf(nil, "process %d writer %d", r.Name, i)}
			<-start
			err := s.Commit(context.Background(), a)
			mu.Lock()
			defer mu.Unlock()
			if taken, ok := errors.AsType[*store.TakenError](err); ok {
				out.Refused = append(out.Refused, taken.Occupant.WriteID.String())
			} else if err != nil {
				out.Failed = append(out.Failed, err.Error())
			} else {
				out.Accepted = append(out.Accepted, a.WriteID.String())
			}
		})
	}
	close(start)
	wg.Wait()
	return out
}

func ignore(err, harmless error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}

// process is a racer at work.
type process struct {
	positions *json.Encoder
	rounds    *json.Decoder
}

func startRacer(t *testing.T, r racer) process {
	t.Helper()
	config, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), racerConfig+"="+string(config))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v", r.Name, err)
		}
	})
	return process{positions: json.NewEncoder(in), rounds: json.NewDecoder(bufio.NewReader(out))}
}

func TestOf64WritersIn4ProcessesExactlyOneIsAcceptedEveryRound(t *testing.T) {
	rounds := uint64(1000)
	if testing.Short() {
		rounds = 25
	}
	endpoint := dynamolocal.Start(t)
	tables := dynamolocal.Tables(t, endpoint)
	stream, _ := pair()
	var racers []process
	for i := range processes {
		racers = append(racers, startRacer(t, racer{Endpoint: endpoint, Tables: tables, Stream: []byte(stream), Name: i}))
	}
	var winners []string
	for position := uint64(1); position <= rounds; position++ {
		for _, p := range racers {
			if err := p.positions.Encode(position); err != nil {
				t.Fatal(err)
			}
		}
		var all round
		for _, p := range racers {
			var r round
			if err := p.rounds.Decode(&r); err != nil {
				t.Fatal(err)
			}
			all.Accepted = append(all.Accepted, r.Accepted...)
			all.Refused = append(all.Refused, r.Refused...)
			all.Failed = append(all.Failed, r.Failed...)
		}
		if len(all.Accepted) != 1 || len(all.Refused) != processes*writersPerProcess-1 {
			t.Fatalf("round %d: %d accepted, %d refused, others %v", position, len(all.Accepted), len(all.Refused), all.Failed)
		}
		winners = append(winners, all.Accepted[0])
		for _, occupant := range all.Refused {
			if occupant != all.Accepted[0] {
				t.Fatalf("round %d: a loser was shown %s, the winner is %s", position, occupant, all.Accepted[0])
			}
		}
	}
	s := dynamo.New(dynamolocal.Client(endpoint), tables)
	for next := uint64(1); next <= rounds; {
		rows, err := s.Rows(t.Context(), stream, next, store.MaxPage, store.Ascending)
		if err != nil || len(rows) == 0 {
			t.Fatalf("Rows(%d) = %d rows, %v", next, len(rows), err)
		}
		for _, row := range rows {
			if row.Position != next || row.WriteID.String() != winners[next-1] {
				t.Fatalf("row %d is at %d and of %v, want the winner %s", next, row.Position, row.WriteID, winners[next-1])
			}
			next++
		}
	}
}
