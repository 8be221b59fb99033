// Package timingwheel runs callbacks when their time has come, for services that
// hold very many timeouts of which most are taken back: orders that must be paid
// within 15 minutes, leases, sessions, idle connections.
package timingwheel
