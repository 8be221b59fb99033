//go:build !race

package timingwheel_test

const raceEnabled = false
