// Package redisstore keeps durable timers in Redis 6.2 or newer, or what speaks its
// protocol, so that all processes of a service share them: each timer is handled by
// one of them at a time, and by another if that one dies.
//
//	store, err := redisstore.New(ctx, client, redisstore.Options{})
//
// The client is the caller's, for one server, a Sentinel group or a Cluster. Each
// change is one script that runs atomically on the server and reads the server's
// clock, so that clocks of clients have no say. A timer is a field of a hash and a
// member of a sorted set whose score is when somebody must look next: its due time,
// or the end of the lease of whoever claimed it. A timer whose holder died so comes
// back by itself; nothing expires, and no process has to tidy up.
//
// What a returned Add is worth is what the server makes of it: with appendfsync
// everysec a crash of the server can lose its last second, with asynchronous
// replication a failover can lose what was not copied yet. New warns if the server
// may evict keys or keeps no append only file.
//
// A process with nothing to do sleeps. A timer that is due earlier than all others
// is announced by PUBLISH; as such a message can be lost, each consumer also looks
// about once a second, which costs the server some microseconds.
package redisstore
