// Package proof tests the public surface of timingwheel with packages that the
// root module shall not require: properties on random programs, other people's
// fake clocks, and a check that no goroutine is left. Beside it stand a program
// that loads a wheel on the real clock for minutes (endurance) and one that breaks
// the source on purpose to see whether a test fails (mutation).
package proof
