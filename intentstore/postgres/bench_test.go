package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intentstore/intentstoretest"
	"github.com/latchkey-gateway/latchkey/intentstore/postgres"
)

// BenchmarkBeginSettle runs on a server of its own that syncs to the disk.
func BenchmarkBeginSettle(b *testing.B) {
	server := intentstoretest.StartPostgres(b)
	if err := postgres.Migrate(b.Context(), server.DSN); err != nil {
		b.Fatal(err)
	}
	for _, o := range []postgres.Options{
		{Flights: 1, Linger: -1},
		{Flights: 1, Linger: time.Millisecond},
		{Flights: 2, Linger: -1},
		{Flights: 2, Linger: time.Millisecond},
	} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("flights=%d/linger=%v/callers=%d", o.Flights, max(o.Linger, 0), callers), func(b *testing.B) {
				o.DSN = server.DSN
				s := open(b, o)
				if err := s.Ready(b.Context()); err != nil {
					b.Fatal(err)
				}
				intentstoretest.Benchmark(b, s, callers, server.ProcessorTime)
			})
		}
	}
}
