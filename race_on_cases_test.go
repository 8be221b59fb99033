//go:build race

package timingwheel_test

const raceEnabled = true
