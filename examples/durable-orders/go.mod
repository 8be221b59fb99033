module github.com/fee15284/timingwheel/examples/durable-orders

go 1.25.0

require (
	github.com/benbjohnson/clock v1.3.5
	github.com/fee15284/timingwheel v0.0.0
	github.com/fee15284/timingwheel/durable/boltstore v0.0.0
	go.etcd.io/bbolt v1.5.0
)

require golang.org/x/sys v0.45.0 // indirect

replace (
	github.com/fee15284/timingwheel => ../..
	github.com/fee15284/timingwheel/durable/boltstore => ../../durable/boltstore
)
