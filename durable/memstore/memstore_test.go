package memstore_test

import (
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/fee15284/timingwheel/durable/memstore"
	"github.com/fee15284/timingwheel/durable/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		mock := clock.NewMock()
		s := memstore.New(mock.Now)
		t.Cleanup(func() { s.Close() })
		return &storetest.Harness{Store: s, Advance: mock.Add, Unit: time.Minute}
	})
}

// The suite must also suit a store whose time cannot be set.
func TestStoreOnRealTime(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		t.Parallel()
		s := memstore.New(nil)
		t.Cleanup(func() { s.Close() })
		return &storetest.Harness{Store: s, Advance: time.Sleep, Unit: 4 * time.Millisecond}
	})
}
