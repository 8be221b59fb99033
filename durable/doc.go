// Package durable runs handlers at least once, never before their time, also if
// the process that set the timer has died.
//
// A timeout that must outlive the process cannot be a closure. Here a timer is
// data: a topic, a key, a due time and a payload, kept by a Store; a handler is
// registered for each topic. Stores are packages of their own: durable/boltstore
// keeps timers in a file of this process, durable/redisstore shares them among many
// processes, durable/memstore is for tests.
package durable
