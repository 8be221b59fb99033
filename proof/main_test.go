package proof

import (
	"testing"

	"go.uber.org/goleak"
)

// No wheel of any test here is left with a goroutine, stopped or not.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
